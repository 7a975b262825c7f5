import { isPending } from "../../app/job/jobs";
import { phaseLook } from "../../app/look/phases";
import { countOf } from "../../app/text/format";
import { PhaseBadge } from "../../parts/Badge";
import { Icon } from "../../parts/Icon";
import { Sentence } from "../../parts/Sentence";
import { Name, Text } from "../../parts/Text";
import { Age, Until } from "../../parts/Time";
import type { JobState } from "../../wire/cluster";
import type { StatusReport, WhyAnswer } from "../../wire/job";

/** The answer to "why does it wait, and when does it start", in the words of `trellis explain`. */
export function Verdict(props: {
  readonly why: WhyAnswer | undefined;
  readonly status: StatusReport | undefined;
  readonly row: JobState | undefined;
}) {
  const { why, status, row } = props;
  const answer = why?.answer;
  const stored = status?.job.status;
  // Without a scheduler, the status of the job still says what it was told last.
  const word = answer?.word || row?.phase || stored?.phase || "not processed yet";
  const reason = answer ? answer.reason : (row?.reason ?? stored?.reason);
  const message = answer ? answer.message : (row?.message ?? stored?.message ?? "");
  const since = answer?.since;
  return (
    <section class={`verdict verdict-${phaseLook(word).tone}`} aria-label="State">
      <p class="verdict-state">
        <PhaseBadge phase={word} />
        {since !== undefined && (
          <span>
            for <Age time={since} />
          </span>
        )}
        {reason !== undefined && reason !== word && (
          <span class="verdict-reason">
            <Name text={reason} />
          </span>
        )}
      </p>
      {message && (
        <p class="verdict-message">
          <Text text={message} max={1_200} />
        </p>
      )}
      {(answer?.place || answer?.start) && (
        <ul class="verdict-turn">
          {answer.place && (
            <li>
              <Icon name="jobs" />
              <Sentence spans={answer.place} />
            </li>
          )}
          {answer.start && (
            <li>
              <Icon name="clock" />
              <Sentence spans={answer.start} />
            </li>
          )}
        </ul>
      )}
      {row && !isPending(row) && <Placement row={row} />}
      {!answer && (
        <p class="dim">The status of the job, as the operator wrote it last. There is no current explanation.</p>
      )}
      {why?.notes?.map((note) => (
        <p key={note} class="dim">
          <Text text={note} />
        </p>
      ))}
    </section>
  );
}

/** Where a placed job runs, and when it ends. */
function Placement({ row }: { readonly row: JobState }) {
  return (
    <ul class="verdict-turn">
      {row.nodeCount !== undefined && (
        <li>
          <Icon name="nodes" />
          <span>
            {countOf(row.pods, "pod")} on {countOf(row.nodeCount, "node")}
            {row.gpus > 0 && `, ${countOf(row.gpus, "GPU")}`}, for <Age time={row.since} />
          </span>
        </li>
      )}
      <li>
        <Icon name="clock" />
        {row.expectedEnd === undefined ? (
          "its end is unknown"
        ) : (
          <span>
            ends <Until time={row.expectedEnd} />
          </span>
        )}
      </li>
    </ul>
  );
}
