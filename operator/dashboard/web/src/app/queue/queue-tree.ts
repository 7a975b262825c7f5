/** The tree of queues: parents, and whose turn is next. Pure. */

import type { JobState, QueueState } from "../../wire/cluster";
import { isPending } from "../job/jobs";

/** A queue in the tree. */
export interface QueueNode {
  readonly queue: QueueState;
  readonly depth: number;
  readonly children: readonly QueueNode[];
  /** Pending jobs of the queue and of the queues below it. */
  readonly pendingBelow: number;
  /** True: of the queues with its parent that have pending jobs, it has the smallest share. */
  readonly isNext: boolean;
}

/** Returns the roots of the tree. Queues with one parent stand in the order of their share. */
export function buildQueueTree(queues: ReadonlyMap<string, QueueState>): QueueNode[] {
  const children = new Map<string | undefined, QueueState[]>();
  for (const queue of queues.values()) {
    const parent = queue.parent !== undefined && queues.has(queue.parent) ? queue.parent : undefined;
    const siblings = children.get(parent);
    if (siblings) siblings.push(queue);
    else children.set(parent, [queue]);
  }
  const seen = new Set<string>();
  const build = (parent: string | undefined, depth: number): QueueNode[] => {
    const nodes: QueueNode[] = [];
    for (const queue of children.get(parent) ?? []) {
      const { name } = queue.metadata;
      if (seen.has(name)) continue;
      seen.add(name);
      const below = build(name, depth + 1);
      const pendingBelow = below.reduce((sum, child) => sum + child.pendingBelow, queue.pending);
      nodes.push({ queue, depth, children: below, pendingBelow, isNext: false });
    }
    return markNext(nodes.sort(compareShare));
  };
  const roots = build(undefined, 0);
  // Parents that form a circle have no root. The operator reports them; the page must still show them.
  const lost = [...queues.values()].filter((queue) => !seen.has(queue.metadata.name));
  return [...roots, ...lost.map((queue) => leaf(queue))];
}

function leaf(queue: QueueState): QueueNode {
  return { queue, depth: 0, children: [], pendingBelow: queue.pending, isNext: false };
}

function compareShare(a: QueueNode, b: QueueNode): number {
  return shareOf(a.queue) - shareOf(b.queue) || (a.queue.metadata.name < b.queue.metadata.name ? -1 : 1);
}

function shareOf(queue: QueueState): number {
  const share = Number(queue.share ?? 0);
  return Number.isNaN(share) ? Number.POSITIVE_INFINITY : share;
}

/** Alone, a queue has no turn to win. */
function markNext(siblings: QueueNode[]): QueueNode[] {
  const waiting = siblings.filter((node) => node.pendingBelow > 0 && node.queue.active !== false);
  const [first] = waiting;
  if (!first || waiting.length < 2) return siblings;
  return siblings.map((node) => (node === first ? { ...node, isNext: true } : node));
}

/** Returns the queues of the tree in the order of the screen. */
export function flattenTree(roots: readonly QueueNode[]): QueueNode[] {
  return roots.flatMap((node) => [node, ...flattenTree(node.children)]);
}

/** Returns the names of a queue and of all queues below it. */
export function namesBelow(node: QueueNode): Set<string> {
  return new Set(flattenTree([node]).map((own) => own.queue.metadata.name));
}

/** The jobs of some queues: the largest holders, and those that wait, by position. */
export interface QueueJobs {
  readonly holders: readonly JobState[];
  readonly waiters: readonly JobState[];
}

/** Returns the jobs of these queues. */
export function jobsOfQueues(jobs: Iterable<JobState>, names: ReadonlySet<string>): QueueJobs {
  const holders: JobState[] = [];
  const waiters: JobState[] = [];
  for (const job of jobs) if (names.has(job.queue)) (isPending(job) ? waiters : holders).push(job);
  holders.sort((a, b) => b.gpus - a.gpus || b.pods - a.pods);
  waiters.sort((a, b) => (a.position ?? 0) - (b.position ?? 0));
  return { holders, waiters };
}
