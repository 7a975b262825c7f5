/** The bars of moved jobs on a common axis, in percent of its width. Pure. */

import type { ExpectedTimes, MovedJob } from "../../wire/forecast";
import { formatSeconds } from "../text/format";

/** The span of time that the drawing shows. */
export interface Axis {
  readonly from: number;
  readonly to: number;
}

/** A bar. */
export interface JobBar {
  readonly x: number;
  readonly width: number;
  /** True: the end is not known, so the bar reaches the edge. */
  readonly isOpen: boolean;
}

/** Part of the axis before the time of the forecast. */
const PAST = 0.03;
const SHORTEST_MS = 10 * 60_000;

/** Returns the axis of these jobs. A job of another month must not flatten all bars: known starts are in, ends as far as fits. */
export function axisOf(jobs: readonly MovedJob[], time: Date): Axis {
  const all = jobs.flatMap(({ before, after }) => [before, after]);
  const starts = all.map((times) => Date.parse(times?.start ?? "")).filter(Number.isFinite);
  const ends = all.map((times) => Date.parse(times?.end ?? "")).filter(Number.isFinite);
  const now = time.getTime();
  const lastStart = Math.max(now, ...starts);
  const lastEnd = Math.max(lastStart, ...ends);
  const limit = Math.max(SHORTEST_MS, 3 * (lastStart - now), Math.min(lastEnd - now, 24 * 3_600_000));
  const span = Math.max(SHORTEST_MS, Math.min(1.1 * (lastEnd - now), limit), 1.1 * (lastStart - now));
  return { from: now - PAST * span, to: now + span };
}

/** Returns the place of a moment on the axis, in percent. */
export function placeOn({ from, to }: Axis, moment: number): number {
  return Math.min(100, Math.max(0, (100 * (moment - from)) / (to - from)));
}

/** Returns the bar of a run. Undefined: there is no known start. */
export function barOf(times: ExpectedTimes | undefined, axis: Axis): JobBar | undefined {
  if (!times) return undefined;
  const start = times.placed ? axis.from : Date.parse(times.start ?? "");
  if (Number.isNaN(start)) return undefined;
  const end = Date.parse(times.end ?? "");
  const x = placeOn(axis, start);
  const isOpen = Number.isNaN(end) || end > axis.to;
  return { x, width: Math.max(0.4, (isOpen ? 100 : placeOn(axis, end)) - x), isOpen };
}

/** A mark of the axis. */
export interface AxisMark {
  readonly x: number;
  readonly label: string;
}

const STEPS = [60, 300, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200, 86_400, 172_800, 604_800, 2_592_000, 31_536_000];
const MOST_MARKS = 5;

/** Returns a few marks after the time of the forecast. */
export function axisMarks(axis: Axis, time: Date): AxisMark[] {
  const seconds = (axis.to - time.getTime()) / 1_000;
  const step = STEPS.find((own) => seconds / own <= MOST_MARKS) ?? seconds / MOST_MARKS;
  const marks: AxisMark[] = [];
  for (let at = step; at < 0.97 * seconds && marks.length < MOST_MARKS; at += step) {
    marks.push({ x: placeOn(axis, time.getTime() + at * 1_000), label: `+${formatSeconds(at)}` });
  }
  return marks;
}
