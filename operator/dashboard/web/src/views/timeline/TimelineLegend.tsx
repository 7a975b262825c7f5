import type { ComponentChildren } from "preact";

import { session } from "../../app/live/store";
import { Legend, type LegendEntry } from "../../parts/Legend";
import { totals } from "./model";

const ENTRIES: readonly LegendEntry[] = [
  { sample: <span class="time-sample time-wait" />, text: "pending" },
  { sample: <span class="time-sample time-solid" />, text: "placed, from its start until now" },
  { sample: <span class="time-sample time-hatched" />, text: "until its expected end" },
  { sample: <span class="time-sample time-open" />, text: "no known end" },
  { sample: <span class="time-sample time-outline" />, text: "foreseen start" },
];

/** The marks are those of `draw/timeline/paint-run.ts`. */
const ENDED: readonly LegendEntry[] = [
  { sample: <Mark />, text: "ended attempt, complete" },
  { sample: <Mark><path class="time-mark-bad" d="M14 2l8 8M14 10l8-8" /></Mark>, text: "failed" },
  { sample: <Mark><path class="time-mark time-mark-notch" d="M19 1l-6 5 6 5" /></Mark>, text: "preempted" },
  { sample: <Mark><path class="time-mark" d="M20 2v8M23 2v8" /></Mark>, text: "suspended" },
  { sample: <Mark><circle class="time-mark" cx="22" cy="6" r="3" /></Mark>, text: "job deleted" },
  { sample: <Mark><path class="time-mark" d="M18 0v12" /></Mark>, text: "ended otherwise" },
  { sample: <Mark><path class="time-mark" d="M9 1v10" /></Mark>, text: "last checkpoint" },
];

/** A pale bar with its mark. */
function Mark({ children }: { readonly children?: ComponentChildren }) {
  return (
    <svg class="time-past" viewBox="0 0 26 12" width="26" height="12">
      <rect x="0" y="2" width="18" height="8" />
      {children}
    </svg>
  );
}

/** Says what bars and curve mean, and what the forecast assumes. */
export function TimelineLegend({ problem }: { readonly problem: string | undefined }) {
  return (
    <div class="timeline-legend">
      <Legend label="Bars" entries={ENTRIES} />
      <Legend label="Ended attempts" entries={ENDED} />
      {problem !== undefined && <p>{problem}</p>}
      <p>
        <strong>No promise.</strong> The forecast assumes that placed jobs end when they are expected to, that no further
        job passes those that wait, and that nodes stay as they are. A job without a known end keeps its GPUs.{" "}
        {curveText()}
      </p>
      <p class="dim">
        The leader of the scheduler remembers ended attempts for 24 hours. After a change of leader, only the last attempts
        of completed jobs are known.
      </p>
    </div>
  );
}

function curveText(): string {
  if (totals.value === undefined) return "The curve shows what the listed jobs hold: you may not list the nodes, so the free GPUs are not known.";
  if (session.value?.may.allJobs === false) return "The curve starts from the free GPUs of all nodes, and knows the jobs that you may see.";
  return "The curve starts from the free GPUs of nodes that take pods.";
}
