/** Types of `POST /api/what-if`: the changes of a Forecast, and its status. */

import type { JobRef, Quantity, Time } from "./cluster";

/** New nodes with the resources, labels and taints of an existing one. */
export interface AddedNodes {
  readonly like: string;
  readonly count: number;
  readonly labels?: Readonly<Record<string, string>>;
}

/** Name of a node. */
export interface NamedNode {
  readonly name: string;
}

/** The quota of one resource in one flavor. An absent field stays as it is. */
export interface ChangedQuota {
  readonly resource: string;
  /** Absent: the only flavor for which the queue has a quota of this resource. */
  readonly flavor?: string;
  readonly nominal?: Quantity;
  readonly borrowingLimit?: Quantity;
  readonly lendingLimit?: Quantity;
}

/** Fields of a queue. An absent field stays as it is. */
export interface ChangedQueue {
  readonly name: string;
  readonly quotas?: readonly ChangedQuota[];
  readonly priority?: number;
  readonly weight?: Quantity;
  readonly stopPolicy?: string;
}

/** Identical pods of a new job. */
export interface AddedTaskGroup {
  readonly replicas: number;
  readonly requests: Readonly<Record<string, Quantity>>;
}

/** New jobs, with the shape of an existing job or with groups of their own. */
export interface AddedJob extends JobRef {
  readonly count?: number;
  readonly like?: JobRef;
  readonly groups?: readonly AddedTaskGroup[];
  readonly queue?: string;
  readonly priority?: number;
  readonly runtimeSeconds?: number;
}

/** Fields of a job. An absent field stays as it is. */
export interface ChangedJob extends JobRef {
  readonly priority?: number;
  readonly queue?: string;
  readonly runtimeSeconds?: number;
}

/** A change of the cluster. */
export type ForecastChange =
  | { readonly addNodes: AddedNodes }
  | { readonly removeNode: NamedNode }
  | { readonly cordonNode: NamedNode }
  | { readonly restoreNode: NamedNode }
  | { readonly changeQueue: ChangedQueue }
  | { readonly addJob: AddedJob }
  | { readonly changeJob: ChangedJob }
  | { readonly removeJob: JobRef };

/** Body of the request. */
export interface ForecastSpec {
  readonly changes: readonly ForecastChange[];
}

/** What the changes do to a job. Another version of Trellis may send other words. */
export type ForecastEffect = "Earlier" | "Later" | "Stops" | "Stays" | "OtherEnd" | "Added" | "Removed" | (string & {});

/** When a job is expected to start and to end. */
export interface ExpectedTimes {
  /** True: the job holds its place already. */
  readonly placed?: boolean;
  /** Absent: the job holds its place, or its start is not known. */
  readonly start?: Time;
  /** Absent: not known. */
  readonly end?: Time;
  /** True: this run ends before its work does. */
  readonly stops?: boolean;
}

/** A job that starts or ends at another time. */
export interface MovedJob extends JobRef {
  /** Queue of the job after the changes. */
  readonly queue: string;
  readonly gpus: number;
  readonly effect: ForecastEffect;
  /** Absent: the changes add the job. */
  readonly before?: ExpectedTimes;
  /** Absent: the changes remove the job. */
  readonly after?: ExpectedTimes;
}

/** Answer: what the changes do to the jobs. */
export interface ForecastStatus {
  /** Time of the state from which the scheduler looks ahead. */
  readonly time: Time;
  readonly jobs: readonly MovedJob[];
  /** Number of jobs that start and end as without the changes. */
  readonly unmoved: number;
  /** Time up to which the scheduler looked ahead. Absent: it looked as far as anything happens. */
  readonly horizon?: Time;
}
