/** Numbers of the home page. Pure. */

import type { JobState, NodeState } from "../../wire/cluster";
import { canNeverStart, isPending, timesOf } from "../job/jobs";
import { parseQuantity } from "../text/format";

/** Jobs in numbers. */
export interface JobSummary {
  readonly running: number;
  readonly waiting: number;
  readonly heldGpus: number;
  readonly waitingGpus: number;
  /** The job that has waited longest. */
  readonly oldest: JobState | undefined;
}

/** Counts jobs and their devices. */
export function summarizeJobs(jobs: Iterable<JobState>): JobSummary {
  let running = 0;
  let waiting = 0;
  let heldGpus = 0;
  let waitingGpus = 0;
  let oldest: { readonly job: JobState; readonly since: number } | undefined;
  for (const job of jobs) {
    if (!isPending(job)) {
      running += 1;
      heldGpus += job.gpus;
      continue;
    }
    waiting += 1;
    waitingGpus += job.gpus;
    const { since } = timesOf(job);
    if (!oldest || since < oldest.since) oldest = { job, since };
  }
  return { running, waiting, heldGpus, waitingGpus, oldest: oldest?.job };
}

/** Devices of all nodes, as the scheduler counts them. */
export interface DeviceSummary {
  readonly resource: string;
  readonly all: number;
  readonly free: number;
  /** Free on nodes that accept pods. */
  readonly usable: number;
}

/** Resources of nodes that are not devices. */
const NO_DEVICES = new Set(["cpu", "memory", "ephemeral-storage", "pods"]);

/** Counts the devices of all nodes by resource, the largest first. */
export function summarizeDevices(nodes: Iterable<NodeState>): DeviceSummary[] {
  const found = new Map<string, { all: number; free: number; usable: number }>();
  for (const node of nodes) {
    for (const row of node.resources ?? []) {
      if (NO_DEVICES.has(row.resource) || row.resource.startsWith("hugepages-")) continue;
      const sum = found.get(row.resource) ?? { all: 0, free: 0, usable: 0 };
      const free = parseQuantity(row.free) ?? 0;
      sum.all += parseQuantity(row.allocatable) ?? 0;
      sum.free += free;
      if (node.schedulable) sum.usable += free;
      found.set(row.resource, sum);
    }
  }
  const all = [...found].map(([resource, sum]) => ({ resource, ...sum }));
  return all.filter((row) => row.all > 0).sort((a, b) => b.all - a.all);
}

/** The first pending job of each queue, in the order of expected starts. */
export function headsOfQueues(jobs: Iterable<JobState>): JobState[] {
  const heads = new Map<string, JobState>();
  for (const job of jobs) {
    if (job.position === undefined) continue;
    const head = heads.get(job.queue);
    if (!head || (head.position ?? 0) > job.position) heads.set(job.queue, job);
  }
  const start = (job: JobState): number => timesOf(job).eta ?? Number.POSITIVE_INFINITY;
  const byStart = (a: JobState, b: JobState): number =>
    start(a) === start(b) ? Number(a.queue > b.queue) - Number(a.queue < b.queue) : start(a) - start(b);
  return [...heads.values()].sort(byStart);
}

/** Jobs of one user. */
export interface OwnJobs {
  readonly waiting: readonly JobState[];
  readonly placed: readonly JobState[];
}

/**
 * Returns the user's own jobs. Those that can never start come first, since the user must act; then
 * those that start first, and at last those without an expected start.
 */
export function ownJobs(jobs: Iterable<JobState>, user: string): OwnJobs {
  const waiting: JobState[] = [];
  const placed: JobState[] = [];
  for (const job of jobs) if (job.user === user) (isPending(job) ? waiting : placed).push(job);
  const start = (job: JobState): number => {
    if (canNeverStart(job)) return Number.NEGATIVE_INFINITY;
    return timesOf(job).eta ?? Number.POSITIVE_INFINITY;
  };
  const newest = (a: JobState, b: JobState): number => timesOf(b).since - timesOf(a).since;
  waiting.sort((a, b) => (start(a) === start(b) ? newest(a, b) : start(a) - start(b)));
  placed.sort(newest);
  return { waiting, placed };
}
