/**
 * Positions of the jobs that wait. Pure.
 *
 * When a job starts, all jobs behind it move up. The server does not send their rows for that: it
 * sends an order only if the order is not the expected one, which is the jobs that still wait, and
 * then the new ones.
 */

import type { JobState } from "../../wire/cluster";
import { type Delta, applyDeltas } from "./delta";

/** Keys of the jobs that wait, by queue, in the order of their positions. */
export type QueueOrders = Readonly<Record<string, readonly string[]>>;

/** Changed and removed jobs, and the orders that are not the expected ones. */
export interface JobDelta extends Delta<JobState> {
  readonly orders?: QueueOrders | undefined;
}

/** Returns the jobs after all deltas, each with its position. The old list stays as it is. */
export function applyJobDeltas(
  old: ReadonlyMap<string, JobState>,
  deltas: readonly JobDelta[],
  keyOf: (job: JobState) => string,
): ReadonlyMap<string, JobState> {
  return deltas.reduce((jobs, delta) => applyOne(jobs, delta, keyOf), old);
}

function applyOne(
  old: ReadonlyMap<string, JobState>,
  delta: JobDelta,
  keyOf: (job: JobState) => string,
): ReadonlyMap<string, JobState> {
  const next = applyDeltas(old, [delta], keyOf);
  const queues = reorderedQueues(old, delta, keyOf);
  if (queues.size === 0) return next;
  const [before, after] = [waitingKeys(old, queues), waitingKeys(next, queues)];
  const jobs = new Map(next);
  for (const queue of queues) {
    const order = ownOrder(delta.orders, queue) ?? expectedOrder(before.get(queue), after.get(queue));
    order.forEach((key, index) => {
      const job = jobs.get(key);
      const position = index + 1;
      if (job && job.position !== position) jobs.set(key, { ...job, position });
    });
  }
  return jobs;
}

/** Queues whose order may have changed: those of changed and removed jobs that wait or have waited. */
function reorderedQueues(
  old: ReadonlyMap<string, JobState>,
  delta: JobDelta,
  keyOf: (job: JobState) => string,
): ReadonlySet<string> {
  const changed = delta.changed ?? [];
  const before = [...changed.map(keyOf), ...(delta.gone ?? [])].map((key) => old.get(key));
  const queues = new Set(Object.keys(delta.orders ?? {}));
  for (const job of [...changed, ...before]) if (job?.position !== undefined) queues.add(job.queue);
  return queues;
}

function ownOrder(orders: QueueOrders | undefined, queue: string): readonly string[] | undefined {
  return orders && Object.hasOwn(orders, queue) ? orders[queue] : undefined;
}

function waitingKeys(
  jobs: ReadonlyMap<string, JobState>,
  queues: ReadonlySet<string>,
): ReadonlyMap<string, readonly string[]> {
  const waiting = new Map<string, { key: string; position: number }[]>();
  for (const [key, { queue, position }] of jobs) {
    if (position === undefined || !queues.has(queue)) continue;
    const list = waiting.get(queue);
    if (list) list.push({ key, position });
    else waiting.set(queue, [{ key, position }]);
  }
  const sorted = [...waiting].map(([queue, list]) => {
    list.sort((a, b) => a.position - b.position);
    return [queue, list.map(({ key }) => key)] as const;
  });
  return new Map(sorted);
}

function expectedOrder(before: readonly string[] = [], after: readonly string[] = []): readonly string[] {
  const [waits, known] = [new Set(after), new Set(before)];
  return [...before.filter((key) => waits.has(key)), ...after.filter((key) => !known.has(key))];
}
