/** Content of the timeline, from the store and the URL. */

import { computed } from "@preact/signals";

import { nodes, queue } from "../../app/live/store";
import { query } from "../../app/page/route";
import { now } from "../../app/server/clock";
import { sumDevices } from "../../draw/node/devices";
import { foreseenCurve, type GpuTotals } from "../../draw/timeline/free-curve";
import { openingWindow, readWindow, type TimeWindow } from "../../draw/timeline/time-scale";

/** The GPUs of the nodes. Undefined: the user may not see nodes, or they have not arrived. */
export const totals = computed<GpuTotals | undefined>(() => {
  if (nodes.nodes.value.size === 0) return undefined;
  const sums = sumDevices(nodes.nodes.value.values());
  return {
    total: sums.reduce((sum, device) => sum + device.total, 0),
    usable: sums.reduce((sum, device) => sum + device.usable, 0),
  };
});

/** The curve is computed again at most this often while no job changes, in milliseconds. */
const STEP_MS = 10_000;

const steppedTime = computed(() => Math.floor(now.value.getTime() / STEP_MS) * STEP_MS);

/** The free GPUs that are foreseen. All listed jobs count, also those that a filter hides. */
export const curve = computed(() => foreseenCurve(queue.jobs.value.values(), totals.value, steppedTime.value));

/** The window of the URL. Undefined: the one that a timeline opens with. */
export const urlWindow = computed<TimeWindow | undefined>(() => {
  const params = query.value;
  return readWindow(params.get("from") ?? undefined, params.get("to") ?? undefined);
});

/** Returns the window that a timeline opens with. */
export function firstWindow(): TimeWindow {
  const ends = [...queue.jobs.peek().values()].map((job) => Date.parse(job.expectedEnd ?? ""));
  return openingWindow(ends, now.peek().getTime());
}
