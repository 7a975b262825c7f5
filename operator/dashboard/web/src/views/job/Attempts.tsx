import { type AttemptBar, type TimeMark, type TimeSpan, buildAttemptBar } from "../../app/job/attempts";
import { attemptsOfJob, endsBesides } from "../../app/job/ended-attempts";
import { describeAttemptsProblem, useEndedAttempts } from "../../app/live/ended-attempts";
import { now } from "../../app/server/clock";
import { formatClock, formatDateTime, formatSeconds, formatUntil } from "../../app/text/format";
import { Card } from "../../parts/Card";
import { Legend } from "../../parts/Legend";
import { Name, Text } from "../../parts/Text";
import { Ago } from "../../parts/Time";
import { NodeLink } from "../../parts/links";
import type { EndedAttempt } from "../../wire/attempt";
import type { TrainingJob, TrainingJobStatus } from "../../wire/job";
import { FailureText } from "./FailureText";
import { PastAttempts } from "./PastAttempts";

/** Attempts of the job: a bar of time, the attempts that have ended, and what the next one depends on. */
export function Attempts({ job }: { readonly job: TrainingJob }) {
  const { status, metadata } = job;
  const namespace = metadata.namespace ?? "";
  const polled = useEndedAttempts(namespace, `${status?.attempt} ${status?.phase}`);
  if (!status) return null;
  const ended = attemptsOfJob(polled.answer?.attempts ?? [], { namespace, name: metadata.name }, metadata.uid);
  const bar = buildAttemptBar(job, now.value);
  const isOver = status.completionTime !== undefined;
  const problem = describeAttemptsProblem(polled);
  return (
    <Card title="Attempts" aside={status.attempt !== undefined && !isOver && `attempt ${status.attempt} now`}>
      {bar && <Bar bar={bar} />}
      <PastAttempts attempts={ended} known={status.message} />
      <Ends status={status} ended={ended} />
      {problem !== undefined && <p class="dim card-text">{problem}</p>}
    </Card>
  );
}

const SPANS: Readonly<Record<TimeSpan["kind"], string>> = {
  earlier: "earlier attempts",
  waiting: "waits",
  starting: "starts",
  running: "runs",
};

const MARKS: Readonly<Record<TimeMark["kind"], string>> = {
  failure: "failure",
  preemption: "preempted",
  checkpoint: "last checkpoint",
};

function Bar({ bar }: { readonly bar: AttemptBar }) {
  const percent = (at: number): number => ((at - bar.from) / (bar.to - bar.from)) * 100;
  const spans = bar.spans.map((span) => `${SPANS[span.kind]} ${formatSeconds((span.to - span.from) / 1_000)}`);
  return (
    <>
      <div class="attempts" role="img" aria-label={spans.join(", ")}>
        {bar.spans.map((span) => (
          <div
            key={span.kind}
            class={`attempt attempt-${span.kind}`}
            title={`${SPANS[span.kind]}: ${formatSeconds((span.to - span.from) / 1_000)}`}
            style={{ left: `${percent(span.from)}%`, width: `${percent(span.to) - percent(span.from)}%` }}
          />
        ))}
        {bar.marks.map((mark) => (
          <div
            key={mark.kind}
            class={`attempt-mark attempt-mark-${mark.kind}`}
            title={`${MARKS[mark.kind]}: ${formatDateTime(new Date(mark.at))}`}
            style={{ left: `${percent(mark.at)}%` }}
          />
        ))}
      </div>
      <div class="attempts-scale">
        <span>{formatClock(new Date(bar.from), now.value)}</span>
        <span>{formatClock(new Date(bar.to), now.value)}</span>
      </div>
      <Legend
        label="Parts of the bar"
        entries={[
          ...bar.spans.map(({ kind }) => ({ sample: <span class={`attempt attempt-${kind}`} />, text: SPANS[kind] })),
          ...bar.marks.map(({ kind }) => ({
            sample: <span class={`attempt-mark attempt-mark-${kind}`} />,
            text: MARKS[kind],
          })),
        ]}
      />
    </>
  );
}

/** The leader may have forgotten the last failure and preemption: then they are known from the status alone. */
function Ends({ status, ended }: { readonly status: TrainingJobStatus; readonly ended: readonly EndedAttempt[] }) {
  const { checkpoint } = status;
  const { lastFailure, lastPreemption } = endsBesides(status, ended);
  const avoided = (status.excludedNodes ?? []).filter((own) => Date.parse(own.until) > now.value.getTime());
  return (
    <dl class="facts facts-wide">
      {lastFailure && (
        <div>
          <dt>Last failure</dt>
          <dd>
            <Ago time={lastFailure.time} />, attempt {lastFailure.attempt}: <FailureText failure={lastFailure} />
          </dd>
        </div>
      )}
      {lastPreemption && (
        <div>
          <dt>Last preemption</dt>
          <dd>
            <Ago time={lastPreemption.time} />, attempt {lastPreemption.attempt}:{" "}
            <Text text={lastPreemption.message} />
          </dd>
        </div>
      )}
      {checkpoint && (
        <div>
          <dt>Checkpoint</dt>
          <dd>
            {checkpoint.lastTime && (
              <>
                complete <Ago time={checkpoint.lastTime} />
              </>
            )}
            {checkpoint.aheadTime && " A pod reported a time in the future."}
            {checkpoint.problem && (
              <span class="is-bad">
                {" "}
                <Text text={checkpoint.problem} />
              </span>
            )}
          </dd>
        </div>
      )}
      {avoided.map((own) => (
        <div key={own.node}>
          <dt>Avoided node</dt>
          <dd>
            <NodeLink name={own.node} /> for another {formatUntil(own.until, now.value)}: <Name text={own.reason} />
            {own.times > 1 && ` ${own.times} times in a row`}, last in attempt {own.attempt}
          </dd>
        </div>
      ))}
    </dl>
  );
}
