/** Rows of the timeline: a heading for each queue, and below it its jobs in the order of `trellis queue`. Pure. */

import { isPending, sortJobs } from "../../app/job/jobs";
import type { JobState } from "../../wire/cluster";

/** Heights of rows, in CSS pixels. */
export const GROUP_HEIGHT = 26;
export const JOB_HEIGHT = 22;

/** The heading of a queue. */
export interface GroupRow {
  readonly kind: "queue";
  readonly queue: string;
  /** Placed and pending jobs. */
  readonly placed: number;
  readonly pending: number;
  /** GPUs that its placed jobs hold. */
  readonly gpus: number;
}

/** A job. */
export interface JobRow {
  readonly kind: "job";
  /** `namespace/name`. */
  readonly key: string;
  readonly job: JobState;
}

/** A row of the timeline. */
export type TimelineRow = GroupRow | JobRow;

/** Rows and where each begins. */
export interface TimelineRows {
  readonly rows: readonly TimelineRow[];
  /** Distance from the first row to each row, in CSS pixels; the last entry is the height of all rows. */
  readonly tops: readonly number[];
}

/** Returns the rows of jobs. */
export function buildRows(jobs: readonly JobState[]): TimelineRows {
  const rows: TimelineRow[] = [];
  const sorted = sortJobs(jobs, { column: undefined, descending: false });
  for (let first = 0; first < sorted.length; ) {
    const queue = sorted[first]?.queue ?? "";
    let end = first + 1;
    while (end < sorted.length && sorted[end]?.queue === queue) end += 1;
    const own = sorted.slice(first, end);
    const placed = own.filter((job) => !isPending(job));
    const gpus = placed.reduce((sum, job) => sum + job.gpus, 0);
    rows.push({ kind: "queue", queue, placed: placed.length, pending: own.length - placed.length, gpus });
    rows.push(...own.map((job): JobRow => ({ kind: "job", key: `${job.metadata.namespace ?? ""}/${job.metadata.name}`, job })));
    first = end;
  }
  return { rows, tops: topsOf(rows) };
}

function topsOf(rows: readonly TimelineRow[]): readonly number[] {
  const tops = [0];
  let top = 0;
  for (const row of rows) {
    top += row.kind === "queue" ? GROUP_HEIGHT : JOB_HEIGHT;
    tops.push(top);
  }
  return tops;
}

/** Returns the height of all rows, in CSS pixels. */
export function heightOf(rows: TimelineRows): number {
  return rows.tops.at(-1) ?? 0;
}

/** Returns the index of the row at a distance from the first row, in CSS pixels. */
export function rowAt(rows: TimelineRows, distance: number): number | undefined {
  if (distance < 0 || distance >= heightOf(rows)) return undefined;
  let [low, high] = [0, rows.rows.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((rows.tops[middle] ?? 0) <= distance) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Returns the index of a job's row. */
export function rowOfJob(rows: TimelineRows, key: string | undefined): number | undefined {
  const index = key === undefined ? -1 : rows.rows.findIndex((row) => row.kind === "job" && row.key === key);
  return index < 0 ? undefined : index;
}

/** Returns the index of the next row with a job, some rows on. At the ends it is the first or last job. */
export function stepRow(rows: TimelineRows, from: number | undefined, step: number): number | undefined {
  const jobs = rows.rows.flatMap((row, index) => (row.kind === "job" ? [index] : []));
  if (jobs.length === 0) return undefined;
  const current = from === undefined ? -1 : jobs.findIndex((index) => index >= from);
  const next = from === undefined ? 0 : (current < 0 ? jobs.length - 1 : current) + step;
  return jobs[Math.min(Math.max(next, 0), jobs.length - 1)];
}
