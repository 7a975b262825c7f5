import { useEffect, useRef } from "preact/hooks";

import { session } from "../../app/live/store";
import { type Outcome as Result, draft, isPlanning, outcome } from "../../app/plan/planner";
import { describePlanFailure, refusedNamespace, submitCommand, summarizePlan } from "../../app/plan/words";
import { countOf } from "../../app/text/format";
import { Banner, Empty } from "../../parts/Banner";
import { Card } from "../../parts/Card";
import { Command } from "../../parts/Copy";
import { RoleCommands } from "../../parts/RoleCommands";
import { Text } from "../../parts/Text";
import type { PlanAnswer } from "../../wire/plan";
import { PlannedJobCard } from "./PlannedJobCard";
import { Problems } from "./Problems";

/** Shows a place of the text. */
type OnPlace = (line: number, column: number) => void;

/** How the last plan has ended, or what a plan would show. */
export function Outcome({ onPlace }: { readonly onPlace: OnPlace }) {
  const place = useRef<HTMLElement>(null);
  const result = outcome.value;
  const isFirst = useRef(true);
  useEffect(() => {
    // After Back, the page keeps its scroll position.
    if (isFirst.current) isFirst.current = false;
    else if (result && place.current) showOutcome(place.current);
  }, [result]);
  return (
    <section ref={place} class={isPlanning.value ? "plan-outcome is-old" : "plan-outcome"} aria-label="Outcome">
      {result === undefined ? <Nothing /> : <Ended result={result} onPlace={onPlace} />}
    </section>
  );
}

/** On a narrow screen, the outcome is below the text area. */
function showOutcome(place: HTMLElement): void {
  if (place.getBoundingClientRect().top > innerHeight / 2) place.scrollIntoView({ block: "start" });
}

function Nothing() {
  return (
    <Empty title="A plan says whether each job would run now">
      <p class="dim">
        It names the nodes that the job would get and the jobs that it would preempt, or the reason why it would wait
        or be Refused. The operator makes it, and names nodes and jobs only if you may read them.
      </p>
    </Empty>
  );
}

function Ended({ result, onPlace }: { readonly result: Result; readonly onPlace: OnPlace }) {
  const isOld = draft.value.text !== result.draft.text || draft.value.namespace !== result.draft.namespace;
  return (
    <>
      {isOld && <p class="dim plan-old">The text has changed since then.</p>}
      {"answer" in result ? <Answer answer={result.answer} onPlace={onPlace} /> : <Failure result={result} />}
    </>
  );
}

function Failure({ result }: { readonly result: Extract<Result, { readonly error: unknown }> }) {
  if (result.error.kind === "denied") return <NoRight message={result.error.message} />;
  const { title, text } = describePlanFailure(result.error, result.since);
  return (
    <Banner tone="warning" title={title}>
      <Text text={text} max={2_000} />
    </Banner>
  );
}

/** Which right is missing, and the commands that give it. */
function NoRight({ message }: { readonly message: string }) {
  const namespace = refusedNamespace(message);
  return (
    <Card title="You may not plan">
      <p class="card-text">
        <Text text={message} max={2_000} />
      </p>
      <p class="card-text">
        A plan needs the right to create plans.visibility.trellis.dev in the namespace of the jobs. The ClusterRole
        trellis-edit has it, and so has edit. An administrator can grant it alone:
      </p>
      <RoleCommands role="trellis-plan-jobs" verbs="create" resource="plans.visibility.trellis.dev" namespace={namespace} />
    </Card>
  );
}

function Answer({ answer, onPlace }: { readonly answer: PlanAnswer; readonly onPlace: OnPlace }) {
  const { jobs, notes, problems } = answer;
  return (
    <>
      {problems.length > 0 && <Problems problems={problems} onPlace={onPlace} />}
      {problems.length === 0 && jobs.length === 0 && <Empty title="The text contains no job" />}
      {jobs.length > 1 && <p class="plan-summary">{summarizePlan(jobs)}</p>}
      {jobs.map((job) => (
        <PlannedJobCard key={`${job.namespace}/${job.name}`} job={job} />
      ))}
      {notes.length > 0 && <Notes notes={notes} />}
      {jobs.length > 0 && (
        <Card title={jobs.length === 1 ? "Submit it" : `Submit ${countOf(jobs.length, "job")}`}>
          <div class="card-text">
            <p class="plan-hint">Save the text as job.yaml first. This page submits nothing.</p>
            <Command text={submitCommand(jobs, session.value?.context)} />
          </div>
        </Card>
      )}
    </>
  );
}

function Notes({ notes }: { readonly notes: readonly string[] }) {
  return (
    <Card title={notes.length === 1 ? "Note" : "Notes"}>
      <ul class="card-text plan-notes">
        {notes.map((note) => (
          <li key={note}>
            <Text text={note} max={1_000} />
          </li>
        ))}
      </ul>
    </Card>
  );
}
