/** Stretches of time that the timeline draws for one job. Pure. Times are milliseconds since 1970. */

import { canNeverStart, isPending } from "../../app/job/jobs";
import type { JobState } from "../../wire/cluster";
import type { PastRun } from "./past-runs";

/** A stretch of time. An absent end is unknown. */
export interface Span {
  readonly from: number;
  readonly to: number | undefined;
}

/** The stretches of one job. */
export interface JobSpans {
  /** Attempts that have ended: pale bars, with a mark for how they ended. */
  readonly past: readonly PastRun[];
  /** The job waits or has waited: a thin line. */
  readonly wait: Span | undefined;
  /** The job waits for its foreseen start: a dotted line. */
  readonly foreseenWait: Span | undefined;
  /** The job holds its devices: a solid bar. */
  readonly solid: Span | undefined;
  /** The job is expected to hold them further: a hatched bar. */
  readonly hatched: Span | undefined;
  /** The job is expected to start: an outline. */
  readonly outline: Span | undefined;
  /** The expected end has passed. */
  readonly isOverdue: boolean;
  /** The job cannot start as it is. */
  readonly isNever: boolean;
  /** The job is neither pending nor placed: it has only a past. */
  readonly isGone: boolean;
}

/** Returns what the timeline draws for a job. An absent job has only a past. */
export function spansOf(job: JobState | undefined, now: number, past: readonly PastRun[] = []): JobSpans {
  if (job === undefined) return { ...NOTHING, past };
  return isPending(job) ? pendingSpans(job, now, past) : placedSpans(job, now, past);
}

const NOTHING: JobSpans = {
  past: [],
  wait: undefined,
  foreseenWait: undefined,
  solid: undefined,
  hatched: undefined,
  outline: undefined,
  isOverdue: false,
  isNever: false,
  isGone: true,
};

function placedSpans(job: JobState, now: number, past: readonly PastRun[]): JobSpans {
  const [submitted, since, end] = [parse(job.submitted), parse(job.since), parse(job.expectedEnd)];
  const begin = Math.min(since ?? now, now);
  const isOverdue = end !== undefined && end <= now;
  return {
    past,
    wait: submitted !== undefined && submitted < begin ? { from: submitted, to: begin } : undefined,
    foreseenWait: undefined,
    solid: { from: begin, to: now },
    hatched: isOverdue ? undefined : { from: now, to: end },
    outline: undefined,
    isOverdue,
    isNever: false,
    isGone: false,
  };
}

function pendingSpans(job: JobState, now: number, past: readonly PastRun[]): JobSpans {
  const [submitted, start, end] = [parse(job.submitted), parse(job.expectedStart), parse(job.expectedEnd)];
  const isNever = canNeverStart(job);
  // A start in the past is due: the scheduler is about to act.
  const begin = start === undefined || isNever ? undefined : Math.max(start, now);
  return {
    past,
    wait: { from: Math.min(submitted ?? now, now), to: now },
    foreseenWait: begin !== undefined && begin > now ? { from: now, to: begin } : undefined,
    solid: undefined,
    hatched: undefined,
    outline: begin === undefined ? undefined : { from: begin, to: end !== undefined && end > begin ? end : undefined },
    isOverdue: false,
    isNever,
    isGone: false,
  };
}

function parse(time: string | undefined): number | undefined {
  const at = Date.parse(time ?? "");
  return Number.isNaN(at) ? undefined : at;
}
