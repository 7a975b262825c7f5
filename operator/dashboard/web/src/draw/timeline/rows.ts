/**
 * Rows of the timeline: a heading for each queue, below it its jobs in the order of `trellis queue`, and
 * at last the jobs that only have ended attempts. Pure.
 */

import { jobKeyOf } from "../../app/job/ended-attempts";
import { isPending, sortJobs } from "../../app/job/jobs";
import type { EndedAttempt } from "../../wire/attempt";
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
  /** Jobs that only have ended attempts. At most {@link MAX_ENDED} of them have a row. */
  readonly ended: number;
}

/** A job. */
export interface JobRow {
  readonly kind: "job";
  /** `namespace/name`. */
  readonly key: string;
  /** Absent: the job is neither pending nor placed. */
  readonly job: JobState | undefined;
  /** Its ended attempts, in the order of their ends. */
  readonly past: readonly EndedAttempt[];
  /** GPUs of the job, or of its last attempt. */
  readonly gpus: number;
}

/** Jobs without a pending or placed job that have a row in each queue: those that ended last. */
export const MAX_ENDED = 50;

/** A row of the timeline. */
export type TimelineRow = GroupRow | JobRow;

/** Rows and where each begins. */
export interface TimelineRows {
  readonly rows: readonly TimelineRow[];
  /** Distance from the first row to each row, in CSS pixels; the last entry is the height of all rows. */
  readonly tops: readonly number[];
}

/** Ended attempts by `namespace/name`. Those of a job are in the order of their ends. */
export type Past = ReadonlyMap<string, readonly EndedAttempt[]>;

const NO_PAST: Past = new Map();

/** Returns the rows of jobs with their ended attempts. `gone` has the attempts of all other jobs that get a row. */
export function buildRows(jobs: readonly JobState[], past: Past = NO_PAST, gone: Past = NO_PAST): TimelineRows {
  const live = groupBy(sortJobs(jobs, { column: undefined, descending: false }), (job) => job.queue);
  const ended = groupBy([...gone.values()], (attempts) => attempts.at(-1)?.queue ?? "");
  const queues = [...new Set([...live.keys(), ...ended.keys()])].sort();
  const rows = queues.flatMap((queue) => rowsOfQueue(queue, live.get(queue) ?? [], ended.get(queue) ?? [], past));
  return { rows, tops: topsOf(rows) };
}

/** As Map.groupBy, which Node.js 20 lacks. */
function groupBy<Item>(items: Iterable<Item>, keyOf: (item: Item) => string): ReadonlyMap<string, readonly Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}

function rowsOfQueue(queue: string, own: readonly JobState[], gone: readonly (readonly EndedAttempt[])[], past: Past): TimelineRow[] {
  const placed = own.filter((job) => !isPending(job));
  const gpus = placed.reduce((sum, job) => sum + job.gpus, 0);
  const head: GroupRow = { kind: "queue", queue, placed: placed.length, pending: own.length - placed.length, gpus, ended: gone.length };
  const last = [...gone].sort((a, b) => endOf(b) - endOf(a)).slice(0, MAX_ENDED);
  return [
    head,
    ...own.map((job): JobRow => {
      const key = `${job.metadata.namespace ?? ""}/${job.metadata.name}`;
      return { kind: "job", key, job, past: past.get(key) ?? [], gpus: job.gpus };
    }),
    ...last.flatMap((attempts): readonly JobRow[] => {
      const ended = attempts.at(-1);
      return ended ? [{ kind: "job", key: jobKeyOf(ended), job: undefined, past: attempts, gpus: ended.gpus }] : [];
    }),
  ];
}

function endOf(attempts: readonly EndedAttempt[]): number {
  return Date.parse(attempts.at(-1)?.ended ?? "");
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
