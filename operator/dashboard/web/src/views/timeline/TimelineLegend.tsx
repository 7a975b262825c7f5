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

/** Says what bars and curve mean, and what the forecast assumes. */
export function TimelineLegend() {
  return (
    <div class="timeline-legend">
      <Legend label="Bars" entries={ENTRIES} />
      <p>
        <strong>No promise.</strong> The forecast assumes that placed jobs end when they are expected to, that no further
        job passes those that wait, and that nodes stay as they are. A job without a known end keeps its GPUs.{" "}
        {curveText()}
      </p>
      <p class="dim">
        This page shows jobs that are pending or placed. Attempts that have ended are not recorded yet: their place is left
        of the solid bars.
      </p>
    </div>
  );
}

function curveText(): string {
  if (totals.value === undefined) return "The curve shows what the listed jobs hold: you may not list the nodes, so the free GPUs are not known.";
  if (session.value?.may.allJobs === false) return "The curve starts from the free GPUs of all nodes, and knows the jobs that you may see.";
  return "The curve starts from the free GPUs of nodes that take pods.";
}
