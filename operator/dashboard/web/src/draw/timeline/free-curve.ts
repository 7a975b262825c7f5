/** The free GPUs that are foreseen, as steps. Pure. Times are milliseconds since 1970. */

import { canNeverStart, isPending } from "../../app/job/jobs";
import type { JobState } from "../../wire/cluster";

/** The number from a time on. */
export interface Step {
  readonly at: number;
  readonly gpus: number;
}

/** A step curve from now on. */
export interface Curve {
  /**
   * `free`: GPUs that are free, given how many are free now. `held`: GPUs that the listed jobs hold,
   * for a user who may not see how many there are.
   */
  readonly kind: "free" | "held";
  readonly steps: readonly Step[];
  /** Top of the scale: all GPUs, or the most that are held. */
  readonly top: number;
}

/** GPUs of the nodes, over all kinds of device. */
export interface GpuTotals {
  readonly total: number;
  /** Free GPUs on nodes that take pods. */
  readonly usable: number;
}

interface Change {
  readonly at: number;
  /** GPUs that become held; negative: that become free. */
  readonly held: number;
}

/**
 * Returns the curve. It assumes that placed jobs end when they are expected to, that pending jobs start
 * when they are foreseen to, and that nothing else changes. A job without a known end holds its GPUs
 * for ever; an overdue one holds them, too. The curve stays between 0 and the top.
 */
export function foreseenCurve(jobs: Iterable<JobState>, totals: GpuTotals | undefined, now: number): Curve {
  const changes: Change[] = [];
  let held = 0;
  for (const job of jobs) {
    if (isPending(job)) changes.push(...changesOfPending(job, now));
    else {
      held += job.gpus;
      const end = Date.parse(job.expectedEnd ?? "");
      if (end > now) changes.push({ at: end, held: -job.gpus });
    }
  }
  // A job that ends makes room for a job that starts at the same moment.
  changes.sort((a, b) => a.at - b.at || a.held - b.held);
  const kind = totals === undefined ? "held" : "free";
  const sign = kind === "held" ? 1 : -1;
  const values = accumulate(changes, totals?.usable ?? held, sign, now);
  const top = totals?.total ?? values.reduce((most, step) => Math.max(most, step.gpus), 1);
  return { kind, top, steps: values.map((step) => ({ at: step.at, gpus: Math.min(Math.max(step.gpus, 0), top) })) };
}

function changesOfPending(job: JobState, now: number): readonly Change[] {
  const start = Date.parse(job.expectedStart ?? "");
  if (Number.isNaN(start) || canNeverStart(job)) return [];
  const begin = Math.max(start, now);
  const end = Date.parse(job.expectedEnd ?? "");
  const changes: Change[] = [{ at: begin, held: job.gpus }];
  if (end > begin) changes.push({ at: end, held: -job.gpus });
  return changes;
}

function accumulate(changes: readonly Change[], from: number, sign: 1 | -1, now: number): readonly Step[] {
  const steps: Step[] = [{ at: now, gpus: from }];
  let gpus = from;
  for (const change of changes) {
    gpus += sign * change.held;
    const last = steps.at(-1);
    if (last !== undefined && last.at === change.at) steps[steps.length - 1] = { at: change.at, gpus };
    else steps.push({ at: change.at, gpus });
  }
  return steps;
}

/** Returns the number of a curve at a time, or undefined before the curve begins. */
export function curveAt(curve: Curve, at: number): number | undefined {
  let [low, high] = [0, curve.steps.length - 1];
  if (high < 0 || at < (curve.steps[0]?.at ?? 0)) return undefined;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((curve.steps[middle]?.at ?? 0) <= at) low = middle;
    else high = middle - 1;
  }
  return curve.steps[low]?.gpus;
}
