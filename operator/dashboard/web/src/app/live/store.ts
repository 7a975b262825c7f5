/** All data of the cluster that views read, as signals. `sync.ts` keeps them current. */

import { type ReadonlySignal, type Signal, batch, computed, signal } from "@preact/signals";

import type {
  ErrorKind,
  JobRef,
  JobState,
  NodeState,
  NodesAnswer,
  NodesDelta,
  ObjectMeta,
  QueueAnswer,
  QueueDelta,
  QueueState,
  Session,
  WireError,
} from "../../wire/cluster";
import { QUEUE_ORDER, sortJobs } from "../job/jobs";
import { serverTime } from "../server/clock";
import { type JobChange, diffJobs, keepRecent } from "./changes";
import { applyDeltas, indexRows } from "./delta";
import { applyJobDeltas } from "./positions";

/** Why data are missing or old. */
export interface Problem {
  readonly kind: ErrorKind;
  readonly message: string;
  /** Time of the first failure in a row. */
  readonly since: Date;
  /** Time of the next request. */
  readonly retryAt?: Date;
}

/** Facts about a list that do not depend on its rows. */
export interface ListHead {
  /** Time of the data. Undefined: nothing has arrived yet. */
  readonly time: Signal<Date | undefined>;
  /** What the list leaves out, and why. */
  readonly notes: Signal<readonly string[]>;
  /** Why the list is old or missing. */
  readonly problem: Signal<Problem | undefined>;
  /** Time at which the server last spoke about the list. */
  readonly heard: Signal<Date | undefined>;
  /** Version of the data, for the stream. */
  readonly version: Signal<string | undefined>;
}

/** Jobs and queues, as `trellis queue` lists them. */
export interface QueueList extends ListHead {
  /** Jobs by `namespace/name`. */
  readonly jobs: Signal<ReadonlyMap<string, JobState>>;
  /** Queues by name. Null: the user may not list them. */
  readonly queues: Signal<ReadonlyMap<string, QueueState> | null>;
}

/** Nodes, as `trellis nodes` lists them. */
export interface NodeList extends ListHead {
  /** Nodes by name. */
  readonly nodes: Signal<ReadonlyMap<string, NodeState>>;
}

function listHead(): ListHead {
  return {
    time: signal<Date | undefined>(undefined),
    notes: signal<readonly string[]>([]),
    problem: signal<Problem | undefined>(undefined),
    heard: signal<Date | undefined>(undefined),
    version: signal<string | undefined>(undefined),
  };
}

/** The user, the cluster and the rights. Undefined: not known yet, or the server refuses the user. */
export const session = signal<Session | undefined>(undefined);

/** Version of the server when this page was opened. The page is a part of that server. */
export const firstVersion = signal<string | undefined>(undefined);

/** Why the server refuses this page altogether. */
export const refusal = signal<Problem | undefined>(undefined);

/** Jobs and queues. */
export const queue: QueueList = {
  ...listHead(),
  jobs: signal<ReadonlyMap<string, JobState>>(new Map()),
  queues: signal<ReadonlyMap<string, QueueState> | null>(new Map()),
};

/** Nodes. They are empty until a view follows them. */
export const nodes: NodeList = {
  ...listHead(),
  nodes: signal<ReadonlyMap<string, NodeState>>(new Map()),
};

/** The namespace whose jobs are listed. Undefined: all namespaces. */
export const scope = signal<string | undefined>(undefined);

/** What has changed since the page was opened, the newest first. */
export const changes = signal<readonly JobChange[]>([]);

/** True while the jobs are those of all namespaces. Else, other jobs leave gaps between positions. */
let isOrdered = false;

const nodeFollowers = signal(0);

/** True while a mounted view needs nodes. */
export const wantsNodes: ReadonlySignal<boolean> = computed(() => nodeFollowers.value > 0);

/** Keeps a list current while a view is mounted. Returns the release. */
export function follow(_list: "nodes"): () => void {
  nodeFollowers.value = nodeFollowers.peek() + 1;
  let isHeld = true;
  return () => {
    if (!isHeld) return;
    isHeld = false;
    nodeFollowers.value = nodeFollowers.peek() - 1;
  };
}

/** Returns the key of a job in the store. */
export function jobKey(job: JobRef | { readonly metadata: ObjectMeta }): string {
  const { namespace, name } = "metadata" in job ? job.metadata : job;
  return `${namespace ?? ""}/${name}`;
}

const nameOf = (row: { readonly metadata: ObjectMeta }): string => row.metadata.name;

function markFresh(list: ListHead, answer: { readonly version: string; readonly time: string }): void {
  list.version.value = answer.version;
  list.time.value = new Date(answer.time);
  list.heard.value = serverTime();
  list.problem.value = undefined;
}

/** Replaces jobs and queues. */
export function replaceQueue(answer: QueueAnswer): void {
  batch(() => {
    // Rows keep their place in the map, so that each later sort of the list finds them nearly sorted.
    const jobs = indexRows(sortJobs(answer.jobs, QUEUE_ORDER), jobKey);
    // The first list is no change.
    if (queue.version.peek() !== undefined) noteChanges(queue.jobs.peek(), jobs);
    queue.jobs.value = jobs;
    isOrdered = answer.ordered;
    queue.queues.value = answer.queues && indexRows(answer.queues, nameOf);
    queue.notes.value = answer.notes;
    markFresh(queue, answer);
  });
}

/** Replaces all nodes. */
export function replaceNodes(answer: NodesAnswer): void {
  batch(() => {
    nodes.nodes.value = indexRows(answer.nodes, nameOf);
    nodes.notes.value = answer.notes;
    markFresh(nodes, answer);
  });
}

/** Applies all deltas of jobs and queues that came within one frame. */
export function updateQueue(deltas: readonly QueueDelta[]): void {
  const last = deltas.at(-1);
  if (!last) return;
  batch(() => {
    const before = queue.jobs.peek();
    const changed = deltas.map(({ jobs, goneJobs, orders }) => ({ changed: jobs, gone: goneJobs, orders }));
    queue.jobs.value = isOrdered ? applyJobDeltas(before, changed, jobKey) : applyDeltas(before, changed, jobKey);
    noteChanges(before, queue.jobs.peek(), deltas);
    for (const delta of deltas) {
      if (delta.queues === null) queue.queues.value = null;
      else if (delta.queues || delta.goneQueues) {
        const rows = { changed: delta.queues, gone: delta.goneQueues };
        queue.queues.value = applyDeltas<QueueState>(queue.queues.peek() ?? new Map(), [rows], nameOf);
      }
      if (delta.notes) queue.notes.value = delta.notes;
    }
    markFresh(queue, last);
  });
}

/** Applies all deltas of nodes that came within one frame. */
export function updateNodes(deltas: readonly NodesDelta[]): void {
  const last = deltas.at(-1);
  if (!last) return;
  batch(() => {
    const changed = deltas.map((delta) => ({ changed: delta.nodes, gone: delta.goneNodes }));
    nodes.nodes.value = applyDeltas(nodes.nodes.peek(), changed, nameOf);
    for (const delta of deltas) if (delta.notes) nodes.notes.value = delta.notes;
    markFresh(nodes, last);
  });
}

/** Notes that the server could not answer. The rows stay, except after a refusal. */
export function reportProblem(list: ListHead, error: WireError, retryAt?: Date): void {
  const before = list.problem.peek();
  const since = before?.kind === error.kind ? before.since : serverTime();
  const problem = { kind: error.kind, message: error.message, since };
  batch(() => {
    list.problem.value = retryAt ? { ...problem, retryAt } : problem;
    if (error.kind === "denied") clearRows(list);
  });
}

/** Removes all data from the page: the server refuses the user. */
export function refuse(error: WireError): void {
  batch(() => {
    refusal.value = { kind: error.kind, message: error.message, since: serverTime() };
    session.value = undefined;
    clearQueue();
    clearNodes();
  });
}

/** Removes jobs and queues. */
export function clearQueue(): void {
  clearRows(queue);
  queue.problem.value = undefined;
}

/** Removes all nodes. */
export function clearNodes(): void {
  clearRows(nodes);
  nodes.problem.value = undefined;
}

function clearRows(list: ListHead): void {
  batch(() => {
    list.version.value = undefined;
    list.time.value = undefined;
    list.heard.value = undefined;
    list.notes.value = [];
    if (list === queue) {
      queue.jobs.value = new Map();
      queue.queues.value = new Map();
      changes.value = [];
    } else {
      nodes.nodes.value = new Map();
    }
  });
}

function noteChanges(
  before: ReadonlyMap<string, JobState>,
  after: ReadonlyMap<string, JobState>,
  deltas?: readonly QueueDelta[],
): void {
  const keys = deltas
    ? deltas.flatMap((delta) => [...(delta.jobs ?? []).map(jobKey), ...(delta.goneJobs ?? [])])
    : [...before.keys(), ...after.keys()];
  const found = diffJobs(before, after, keys, serverTime());
  if (found.length) changes.value = keepRecent([...found, ...changes.peek()]);
}
