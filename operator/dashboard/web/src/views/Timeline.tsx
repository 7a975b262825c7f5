import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";

import { groupByJob, matchesEnded } from "../app/job/ended-attempts";
import type { JobFilter } from "../app/job/jobs";
import { describeAttemptsProblem, useEndedAttempts } from "../app/live/ended-attempts";
import { follow, queue, scope, session } from "../app/live/store";
import { buildRows } from "../draw/timeline/rows";
import type { JobState } from "../wire/cluster";
import { TimelineCanvas } from "./timeline/TimelineCanvas";
import { TimelineLegend } from "./timeline/TimelineLegend";

/**
 * Jobs over time: their ended attempts, what runs, until when, and what is foreseen to start. The table of
 * jobs has the same rows, but for jobs that have ended.
 */
export function TimelineView(props: {
  readonly jobs: readonly JobState[];
  readonly filter: JobFilter;
  /** Is shown if no job and no attempt matches the filter. */
  readonly empty: ComponentChildren;
}) {
  const { jobs, filter } = props;
  const mayListNodes = session.value?.may.nodes === true;
  useEffect(() => (mayListNodes ? follow("nodes") : undefined), [mayListNodes]);
  const polled = useEndedAttempts(scope.value);
  const attempts = polled.answer?.attempts;
  const past = useMemo(() => groupByJob(attempts ?? []), [attempts]);
  const matching = useMemo(() => groupByJob((attempts ?? []).filter((own) => matchesEnded(own, filter))), [attempts, filter]);
  const all = queue.jobs.value;
  // A job that the filter hides is not gone.
  const gone = useMemo(() => new Map([...matching.keys()].filter((key) => !all.has(key)).map((key) => [key, past.get(key) ?? []])), [matching, past, all]);
  const rows = useMemo(() => buildRows(jobs, past, gone), [jobs, past, gone]);
  const problem = describeAttemptsProblem(polled);
  if (rows.rows.length === 0) {
    return (
      <>
        {props.empty}
        {problem !== undefined && <p class="dim">{problem}</p>}
      </>
    );
  }
  return (
    <div class="timeline drawing">
      <TimelineCanvas rows={rows} />
      <TimelineLegend problem={problem} />
    </div>
  );
}
