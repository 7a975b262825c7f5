/** Filters, sorts and describes the jobs of `trellis queue`. Pure. */

import type { JobState } from "../../wire/cluster";
import { formatUntil, jobLabel } from "../text/format";

/** Reasons of a job that can never start as it is, as `Reason::requires_change` in `api`. */
const REQUIRES_CHANGE = new Set(["ExceedsQuota", "ExceedsCluster", "ExceedsTopology", "FlavorNotFound"]);

/** True if the end of other jobs cannot let the job start. */
export function canNeverStart(job: JobState): boolean {
  return isPending(job) && job.reason !== undefined && REQUIRES_CHANGE.has(job.reason);
}

/** True for a pending job. A job that waits for its victims to leave has no position, but is pending. */
export function isPending(job: JobState): boolean {
  return job.position !== undefined || job.phase === "Queued";
}

/** Phase of a job. A job without status has just entered its queue. */
export function phaseOf(job: JobState): string {
  return job.phase ?? "Queued";
}

/** Returns the expected start or end as `trellis queue` prints it. Undefined: unknown. */
export function describeEta(job: JobState, now: Date): string | undefined {
  if (canNeverStart(job)) return "never as it is";
  const isWaiting = isPending(job);
  const time = isWaiting ? job.expectedStart : job.expectedEnd;
  if (time === undefined) return undefined;
  const word = isWaiting ? "starts" : "ends";
  const span = formatUntil(time, now);
  return span === "now" ? `${word} now` : `${word} in ${span}`;
}

/** Returns the reason and message of a job that does not run. */
export function describeReason(job: JobState): string {
  if (job.reason === undefined || job.phase === "Running") return "";
  return job.message ? `${job.reason}: ${job.message}` : job.reason;
}

/** Which jobs the list shows. Undefined: all. */
export interface JobFilter {
  readonly queue?: string | undefined;
  /** `waiting`, `running`, or a phase. */
  readonly state?: string | undefined;
  readonly namespace?: string | undefined;
  readonly user?: string | undefined;
  /** Text in namespace, name, user, queue, reason or message. */
  readonly text?: string | undefined;
}

/** Reads the filter from the query of the URL. */
export function readFilter(query: URLSearchParams): JobFilter {
  const value = (name: string): string | undefined => query.get(name) || undefined;
  return {
    queue: value("q"),
    state: value("state"),
    namespace: value("namespace"),
    user: value("user"),
    text: value("text"),
  };
}

/** Returns the jobs that the filter selects. */
export function filterJobs(jobs: Iterable<JobState>, filter: JobFilter): JobState[] {
  const words = (filter.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const selected: JobState[] = [];
  for (const job of jobs) if (matches(job, filter, words)) selected.push(job);
  return selected;
}

function matches(job: JobState, filter: JobFilter, words: readonly string[]): boolean {
  if (filter.queue !== undefined && job.queue !== filter.queue) return false;
  if (filter.namespace !== undefined && job.metadata.namespace !== filter.namespace) return false;
  if (filter.user !== undefined && job.user !== filter.user) return false;
  if (filter.state !== undefined && !matchesState(job, filter.state)) return false;
  if (words.length === 0) return true;
  const text = searchText(job);
  return words.every((word) => text.includes(word));
}

function matchesState(job: JobState, state: string): boolean {
  if (state === "waiting") return isPending(job);
  if (state === "running") return !isPending(job);
  return phaseOf(job) === state;
}

/** Times of a job, in milliseconds since 1970. */
export interface JobTimes {
  readonly since: number;
  /** Expected start of a pending job, else expected end. Undefined: unknown, or it can never start. */
  readonly eta: number | undefined;
}

const jobTimes = new WeakMap<JobState, JobTimes>();

/** Returns the times of a job. Reading ten thousand times at each change would take too long. */
export function timesOf(job: JobState): JobTimes {
  let times = jobTimes.get(job);
  if (times === undefined) {
    const eta = isPending(job) ? job.expectedStart : job.expectedEnd;
    const isKnown = eta !== undefined && !canNeverStart(job);
    times = { since: Date.parse(job.since), eta: isKnown ? Date.parse(eta) : undefined };
    jobTimes.set(job, times);
  }
  return times;
}

const searchTexts = new WeakMap<JobState, string>();

/** Returns the text of a job that a search looks at, in lower case. */
export function searchText(job: JobState): string {
  let text = searchTexts.get(job);
  if (text === undefined) {
    const name = `${job.metadata.namespace ?? ""}/${jobLabel(job.metadata.name)}`;
    // A message may be long; its beginning has the numbers.
    const message = job.message?.slice(0, 400);
    text = [name, job.user, job.queue, job.reason, message].join("\n").toLowerCase();
    searchTexts.set(job, text);
  }
  return text;
}

/** Columns by which the list can be sorted. */
export const SORT_COLUMNS = [
  "position",
  "job",
  "user",
  "queue",
  "priority",
  "gpus",
  "pods",
  "state",
  "since",
  "eta",
  "reason",
] as const;

/** A column by which the list can be sorted. */
export type SortColumn = (typeof SORT_COLUMNS)[number];

/** The order of the list. Without a column: the order of `trellis queue`. */
export interface JobOrder {
  readonly column: SortColumn | undefined;
  readonly descending: boolean;
}

/** The order of `trellis queue`. */
export const QUEUE_ORDER: JobOrder = { column: undefined, descending: false };

/** Reads the order from the query: `eta`, or `-eta` for the reverse. */
export function readOrder(text: string | null): JobOrder {
  const descending = text?.startsWith("-") ?? false;
  const name = descending ? text?.slice(1) : text;
  return { column: SORT_COLUMNS.find((column) => column === name), descending };
}

/** Writes the order for the query. */
export function writeOrder(order: JobOrder): string | undefined {
  if (order.column === undefined) return undefined;
  return `${order.descending ? "-" : ""}${order.column}`;
}

/** Returns the order after a click on a column: ascending, descending, none. */
export function nextOrder(order: JobOrder, column: SortColumn): JobOrder {
  if (order.column !== column) return { column, descending: false };
  if (!order.descending) return { column, descending: true };
  return QUEUE_ORDER;
}

type SortKey = string | number | undefined;

const SORT_KEYS: Readonly<Record<SortColumn, (job: JobState) => SortKey>> = {
  position: (job) => job.position,
  job: (job) => `${job.metadata.namespace ?? ""}/${job.metadata.name}`,
  user: (job) => job.user,
  queue: (job) => job.queue,
  priority: (job) => job.priority,
  gpus: (job) => job.gpus,
  pods: (job) => job.pods,
  state: (job) => phaseOf(job),
  since: (job) => timesOf(job).since,
  eta: (job) => timesOf(job).eta,
  reason: (job) => describeReason(job) || undefined,
};

/** Returns the jobs in this order. Jobs without a value come last in both directions. */
export function sortJobs(jobs: readonly JobState[], order: JobOrder): JobState[] {
  const inQueueOrder = sortInQueueOrder(jobs);
  const { column, descending } = order;
  if (column === undefined) return inQueueOrder;
  const keyOf = SORT_KEYS[column];
  const rows = inQueueOrder.map((job) => ({ job, key: keyOf(job) }));
  rows.sort((a, b) => {
    if (a.key === undefined || b.key === undefined) {
      return Number(a.key === undefined) - Number(b.key === undefined);
    }
    const compared = compare(a.key, b.key);
    return descending ? -compared : compared;
  });
  return rows.map((row) => row.job);
}

/** As `JobFilter::select` of the command line: by queue; placed jobs first, then by position. */
function sortInQueueOrder(jobs: readonly JobState[]): JobState[] {
  const rows = jobs.map((job) => ({
    job,
    position: job.position ?? 0,
    since: timesOf(job).since,
  }));
  rows.sort(
    (a, b) =>
      compare(a.job.queue, b.job.queue) ||
      a.position - b.position ||
      a.since - b.since ||
      b.job.priority - a.job.priority ||
      compare(a.job.metadata.namespace ?? "", b.job.metadata.namespace ?? "") ||
      compare(a.job.metadata.name, b.job.metadata.name),
  );
  return rows.map((row) => row.job);
}

/** localeCompare takes ten times as long, and the names of Kubernetes are ASCII. */
function compare(a: string | number, b: string | number): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
