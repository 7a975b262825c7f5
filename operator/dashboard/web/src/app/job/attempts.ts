/** The attempts of a job as a bar of time. Pure. */

import type { TrainingJob } from "../../wire/job";
import { formatSeconds } from "../text/format";

/** A part of the bar. */
export interface TimeSpan {
  readonly kind: "earlier" | "waiting" | "starting" | "running";
  readonly from: number;
  readonly to: number;
}

/** A moment on the bar. */
export interface TimeMark {
  readonly kind: "failure" | "preemption" | "checkpoint";
  readonly at: number;
}

/** The bar: milliseconds since 1970. */
export interface AttemptBar {
  readonly from: number;
  readonly to: number;
  readonly spans: readonly TimeSpan[];
  readonly marks: readonly TimeMark[];
}

/** Returns the time of the job from its submission until its end, or until now. */
export function buildAttemptBar(job: TrainingJob, now: Date): AttemptBar | undefined {
  const { status, metadata } = job;
  const from = readTime(metadata.creationTimestamp);
  if (!status || from === undefined) return undefined;
  const to = Math.max(readTime(status.completionTime) ?? now.getTime(), from + 1);
  const begin = Math.max(from, pendingSince(job) ?? from);
  // Times before `begin` are of the attempt before.
  const after = (time: number | undefined): number | undefined =>
    time !== undefined && time >= begin ? time : undefined;
  const placed = after(readTime(status.scheduledTime));
  const running = after(readTime(status.runningTime));
  const spans: TimeSpan[] = [];
  const add = (kind: TimeSpan["kind"], start: number | undefined, end: number): void => {
    if (start !== undefined && end > start) spans.push({ kind, from: start, to: Math.min(end, to) });
  };
  add("earlier", from, begin);
  add("waiting", begin, placed ?? to);
  add("starting", placed, running ?? to);
  add("running", running, to);
  const marks = (
    [
      ["failure", status.lastFailure?.time],
      ["preemption", status.lastPreemption?.time],
      ["checkpoint", status.checkpoint?.lastTime],
    ] as const
  ).flatMap(([kind, time]) => {
    const at = readTime(time);
    return at === undefined || at < from || at > to ? [] : [{ kind, at }];
  });
  return { from, to, spans, marks };
}

/** Returns the time since which the current attempt waits or waited, as `TrainingJobStatus::pending_since`. */
function pendingSince({ status }: TrainingJob): number | undefined {
  const placed = readTime(status?.scheduledTime) ?? Number.POSITIVE_INFINITY;
  const times = [
    status?.lastFailure?.time,
    status?.lastPreemption?.time,
    status?.stage?.since,
    status?.queuedTime,
  ].flatMap((time) => readTime(time) ?? []);
  const isPlaced = ["Starting", "Running", "Complete", "Failed"].includes(status?.phase ?? "");
  // A failure after the placement did not delay it.
  const relevant = isPlaced ? times.filter((time) => time <= placed) : times;
  return relevant.length > 0 ? Math.max(...relevant) : undefined;
}

/** Describes the running time of all attempts. Empty: it has never run. */
export function describeRuntime(job: TrainingJob, now: Date): string {
  const before = job.status?.activeSeconds ?? 0;
  const since = readTime(job.status?.runningTime);
  const end = readTime(job.status?.completionTime) ?? now.getTime();
  const current = since === undefined ? undefined : Math.max(0, (end - since) / 1_000);
  if (before + (current ?? 0) === 0 && current === undefined) return "";
  const limit = job.spec.deadlines?.activeSeconds;
  const atMost = limit === undefined ? "" : ` of ${formatSeconds(limit)} at most`;
  const own = current !== undefined && before > 0 ? `, ${formatSeconds(current)} in this attempt` : "";
  return `${formatSeconds(before + (current ?? 0))}${atMost}${own}`;
}

function readTime(time: string | undefined): number | undefined {
  const at = Date.parse(time ?? "");
  return Number.isNaN(at) ? undefined : at;
}
