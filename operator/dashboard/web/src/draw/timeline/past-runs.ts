/** The ended attempts of a job as stretches of time. Pure. Times are milliseconds since 1970. */

import { checkpointOf, endKind, type EndKind } from "../../app/job/ended-attempts";
import type { EndedAttempt } from "../../wire/attempt";

/** An attempt that has ended. */
export interface PastRun {
  readonly from: number;
  readonly to: number;
  /** How it ended: the mark at its end. */
  readonly end: EndKind;
  /** Time of the last checkpoint within the attempt. */
  readonly checkpoint: number | undefined;
}

const runs = new WeakMap<EndedAttempt, PastRun>();

/** Returns the stretch of an attempt. */
export function pastRun(ended: EndedAttempt): PastRun {
  const known = runs.get(ended);
  if (known !== undefined) return known;
  const [from, to, saved] = [Date.parse(ended.placed), Date.parse(ended.ended), checkpointOf(ended)];
  const checkpoint = saved === undefined ? undefined : Date.parse(saved);
  const run = { from: Math.min(from, to), to, end: endKind(ended), checkpoint };
  runs.set(ended, run);
  return run;
}

/** Returns the attempt at a time, or one whose nearer end is at most `reach` milliseconds away. */
export function attemptAt(attempts: readonly EndedAttempt[], at: number, reach: number): EndedAttempt | undefined {
  let nearest: { readonly ended: EndedAttempt; readonly distance: number } | undefined;
  for (const ended of attempts) {
    const { from, to } = pastRun(ended);
    const distance = Math.max(from - at, at - to, 0);
    if (distance <= reach && (nearest === undefined || distance < nearest.distance)) nearest = { ended, distance };
  }
  return nearest?.ended;
}
