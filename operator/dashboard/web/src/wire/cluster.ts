/**
 * Types of the answers of `trellis dashboard`, as `trellis ... -o json` prints them.
 *
 * They follow the Rust types in `api/src/visibility` and `operator/cli/src`. Words such as phases and
 * reasons are open: another version of Trellis may send a word that this page does not know.
 */

/** A time in RFC 3339, such as `2026-01-01T12:00:00Z`. */
export type Time = string;

/** An amount in Kubernetes notation, such as `8`, `500m` or `64Gi`. */
export type Quantity = string;

/** A phase of a job. Another version of Trellis may send another word. */
export type JobPhase =
  | "Refused"
  | "Waiting"
  | "Blocked"
  | "Queued"
  | "Starting"
  | "Restarting"
  | "Running"
  | "Suspended"
  | "Complete"
  | "Failed"
  | (string & {});

/** The part of the Kubernetes object metadata that the page reads. */
export interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly creationTimestamp?: Time;
  readonly deletionTimestamp?: Time;
  readonly generation?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** A job by namespace and name. External pods have the name `podgroup.NAME` or `pod.NAME`. */
export interface JobRef {
  readonly namespace: string;
  readonly name: string;
}

/** An amount of a resource. */
export interface Amount {
  readonly resource: string;
  readonly amount: Quantity;
}

/** A pending or placed job. */
export interface JobState {
  readonly metadata: ObjectMeta;
  readonly queue: string;
  readonly user?: string;
  readonly priority: number;
  readonly queueShare?: string;
  readonly phase?: JobPhase;
  readonly reason?: string;
  readonly message?: string;
  /** Number of the current attempt, from 1. */
  readonly attempt?: number;
  /** Position in the order of its queue, from 1. Absent: placed, or its victims are leaving. */
  readonly position?: number;
  readonly gpus: number;
  readonly pods: number;
  readonly submitted: Time;
  readonly since: Time;
  readonly expectedStart?: Time;
  readonly expectedEnd?: Time;
  readonly nodeCount?: number;
  /** The first 8 of its nodes by name. */
  readonly nodes?: readonly string[];
}

/** State of a queue for one resource of one flavor. */
export interface QueueResource {
  readonly flavor: string;
  readonly resource: string;
  readonly nominalQuota: Quantity;
  readonly used: Quantity;
  readonly borrowed: Quantity;
  readonly lendable: Quantity;
  /** Amount that its jobs may still get by quota. Absent: quota is not limited. */
  readonly available?: Quantity;
}

/** Current state of a queue. */
export interface QueueState {
  readonly metadata: ObjectMeta;
  readonly parent?: string;
  readonly weight: Quantity;
  readonly active?: boolean;
  readonly reason?: string;
  readonly message?: string;
  readonly pending: number;
  readonly admitted: number;
  readonly share?: string;
  readonly decayedUsage?: readonly Amount[];
  readonly decayedTime?: Time;
  readonly resources?: readonly QueueResource[];
  readonly pendingResources?: readonly Amount[];
}

/** Why a node accepts no new pods. */
export interface NodeReason {
  readonly reason: string;
  readonly message: string;
}

/** A domain of a Topology that contains a node. */
export interface NodeDomain {
  readonly topology: string;
  readonly level: string;
  readonly domain: string;
}

/** Capacity and usage of one resource on a node. */
export interface NodeResource {
  readonly resource: string;
  readonly allocatable: Quantity;
  readonly jobs: Quantity;
  readonly others: Quantity;
  readonly kept: Quantity;
  /** Absent: negative, since the node has shrunk below its usage. */
  readonly free?: Quantity;
}

/** A job on a node. */
export interface NodeHold extends JobRef {
  readonly pods: number;
  readonly devices?: readonly Amount[];
  /** `Running`, `Starting` or `Stopping`. Absent for reserved or kept resources. */
  readonly state?: string;
  readonly expectedStart?: Time;
  readonly until?: Time;
}

/** A node as the scheduler sees it. */
export interface NodeState {
  readonly metadata: ObjectMeta;
  readonly schedulable: boolean;
  readonly reasons?: readonly NodeReason[];
  readonly taints?: readonly string[];
  readonly domains?: readonly NodeDomain[];
  readonly resources?: readonly NodeResource[];
  readonly jobs?: readonly NodeHold[];
  readonly otherPods: number;
  readonly reservedFor?: readonly NodeHold[];
  readonly keptFor?: readonly NodeHold[];
  readonly excludedBy?: readonly JobRef[];
}

/** Answer of `GET /api/session`. */
export interface Session {
  readonly user: string;
  readonly mode: "local" | "cluster";
  readonly version: string;
  readonly context: string | null;
  readonly namespace: string;
  readonly may: { readonly allJobs: boolean; readonly queues: boolean; readonly nodes: boolean };
  readonly time: Time;
}

/** Answer of `GET /api/queue`. */
export interface QueueAnswer {
  /** True: the jobs are those of all namespaces, so that the page can count their positions. */
  readonly ordered: boolean;
  readonly version: string;
  readonly time: Time;
  readonly jobs: readonly JobState[];
  readonly queues: readonly QueueState[] | null;
  readonly notes: readonly string[];
}

/** Answer of `GET /api/nodes`. */
export interface NodesAnswer {
  readonly version: string;
  readonly time: Time;
  readonly nodes: readonly NodeState[];
  readonly notes: readonly string[];
}

/** Kind of an error. Another version may send another word. */
export type ErrorKind =
  | "key"
  | "unauthorized"
  | "denied"
  | "notFound"
  | "unavailable"
  | "busy"
  | "invalid"
  | "unreachable"
  | "internal"
  | (string & {});

/** An error in words for people. */
export interface WireError {
  readonly kind: ErrorKind;
  readonly message: string;
}

/** Changed rows of the queue list. Absent fields have not changed. */
export interface QueueDelta {
  readonly list: "queue";
  readonly version: string;
  readonly time: Time;
  readonly jobs?: readonly JobState[];
  readonly goneJobs?: readonly string[];
  /** Keys of the jobs that wait, by queue, where the page does not expect this order. */
  readonly orders?: Readonly<Record<string, readonly string[]>>;
  readonly queues?: readonly QueueState[] | null;
  readonly goneQueues?: readonly string[];
  readonly notes?: readonly string[];
}

/** Changed rows of the node list. Absent fields have not changed. */
export interface NodesDelta {
  readonly list: "nodes";
  readonly version: string;
  readonly time: Time;
  readonly nodes?: readonly NodeState[];
  readonly goneNodes?: readonly string[];
  readonly notes?: readonly string[];
}

/** A list that the stream follows. */
export type ListName = "queue" | "nodes";

/** One line of `GET /api/stream`. */
export type StreamLine =
  | QueueDelta
  | NodesDelta
  | { readonly list: ListName; readonly reset: true }
  | { readonly list: ListName; readonly error: WireError };
