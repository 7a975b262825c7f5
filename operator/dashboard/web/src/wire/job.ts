/** Types of the answers about one job: `trellis status -o json` and `trellis explain -o json`. */

import type { Amount, JobPhase, JobRef, JobState, ObjectMeta, Quantity, QueueState, Time } from "./cluster";

/** A condition of a Kubernetes object. */
export interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: Time;
}

/** The part of a task group that the page reads. */
export interface TaskGroup {
  readonly name: string;
  readonly replicas?: number;
  readonly minReplicas?: number;
  readonly gpus?: number;
  readonly role?: string;
  readonly membership?: string;
  readonly dependsOn?: readonly { readonly group: string; readonly status?: string }[];
}

/** The part of a TrainingJob's spec that the page reads. */
export interface TrainingJobSpec {
  readonly framework?: string;
  readonly queueName?: string;
  readonly priorityClassName?: string;
  readonly managedBy?: string;
  readonly suspend?: boolean;
  readonly restart?: { readonly limit?: number; readonly disruptionLimit?: number };
  readonly deadlines?: { readonly activeSeconds?: number };
  readonly taskGroups: readonly TaskGroup[];
}

/** The last eviction of a job. */
export interface LastPreemption {
  readonly message: string;
  readonly attempt: number;
  readonly time: Time;
}

/** Cause of a failed attempt. */
export interface LastFailure {
  readonly pod: string;
  readonly node?: string;
  readonly exitCode?: number;
  readonly reason: string;
  readonly lastLine?: string;
  readonly attempt: number;
  readonly time: Time;
}

/** A node that the job avoids. */
export interface ExcludedNode {
  readonly node: string;
  readonly reason: string;
  readonly times: number;
  readonly attempt: number;
  readonly until: Time;
}

/** Checkpoints that the pods of the job have reported. */
export interface CheckpointStatus {
  readonly lastTime?: Time;
  readonly aheadTime?: Time;
  readonly problem?: string;
}

/** Policy decision about a job. */
export interface PolicyVerdict {
  readonly decision?: string;
  readonly requester?: string;
  readonly requesterUnknown?: string;
  readonly policies?: readonly string[];
  readonly missingPermits?: readonly string[];
  readonly errors?: readonly string[];
  readonly warnings?: readonly string[];
}

/** How the pods of a job follow one level of a Topology. */
export interface LevelPlacement {
  readonly level: string;
  readonly domains: number;
  readonly crossings: number;
  readonly leastCrossings: number;
}

/** The part of a TrainingJob's status that the page reads. */
export interface TrainingJobStatus {
  readonly phase?: JobPhase;
  readonly reason?: string;
  readonly message?: string;
  readonly queue?: string;
  readonly ready?: string;
  readonly pods?: { readonly total: number; readonly running: number; readonly succeeded: number; readonly failed: number };
  readonly gpus?: number;
  readonly nodes?: number;
  readonly placement?: readonly LevelPlacement[];
  readonly stage?: { readonly number: number; readonly of: number; readonly firstAttempt: number; readonly since?: Time };
  readonly attempt?: number;
  readonly restarts?: number;
  readonly disruptions?: number;
  readonly admittedTime?: Time;
  readonly queuedTime?: Time;
  readonly scheduledTime?: Time;
  readonly runningTime?: Time;
  readonly completionTime?: Time;
  readonly activeSeconds?: number;
  readonly retryTime?: Time;
  readonly lastFailure?: LastFailure;
  readonly excludedNodes?: readonly ExcludedNode[];
  readonly lastPreemption?: LastPreemption;
  readonly checkpoint?: CheckpointStatus;
  readonly policy?: PolicyVerdict;
  readonly profile?: { readonly name: string };
  readonly conditions?: readonly Condition[];
}

/** A TrainingJob. The page prints the fields that it does not know as YAML. */
export interface TrainingJob {
  readonly metadata: ObjectMeta;
  readonly spec: TrainingJobSpec;
  readonly status?: TrainingJobStatus;
}

/** An object that the job was compiled into. */
export interface ObjectLine {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly state: "there" | "missing" | "notOurs" | "forbidden" | "unread" | (string & {});
  readonly problem?: string;
}

/** A pod of the job. */
export interface PodLine {
  readonly name: string;
  readonly group: string;
  readonly index: number;
  readonly rank?: number;
  readonly attempt: number;
  readonly round?: number;
  readonly node?: string;
  readonly state: string;
  readonly ready: number;
  readonly containers: number;
  readonly restarts: number;
  readonly exitCode?: number;
  readonly message?: string;
  readonly created?: Time;
}

/** Missing pods of one task group, with one cause. */
export interface MissingPods {
  readonly group: string;
  /** Indexes in the group, such as `0-3,7`. */
  readonly indexes: string;
  /** Ranks in the stage, such as `0-3,7`. */
  readonly ranks: string;
  readonly count: number;
  readonly why: string;
  readonly notBefore?: Time;
  readonly done?: boolean;
}

/** An event that occurred once or several times. */
export interface EventLine {
  readonly type: string;
  readonly reason: string;
  readonly note: string;
  readonly count: number;
  readonly last: Time;
}

/** Answer of `GET /api/jobs/NS/NAME`. */
export interface StatusReport {
  readonly time: Time;
  readonly job: TrainingJob;
  readonly objects: readonly ObjectLine[];
  readonly pods: readonly PodLine[];
  readonly missing: readonly MissingPods[];
  readonly events: readonly EventLine[];
  readonly unread: readonly { readonly what: string; readonly why: string }[];
}

/** A part of a sentence. At most one of `node`, `job` and `queue` says what the text names. */
export interface Span {
  readonly text: string;
  readonly node?: string;
  readonly job?: JobRef;
  readonly queue?: string;
}

/** A sentence as spans in order. */
export type Sentence = readonly Span[];

/** Numbers of a shortage. Fields that do not belong to the reason are absent. */
export interface Shortage {
  readonly taskGroup?: string;
  readonly resource?: string;
  readonly flavor?: string;
  readonly queue?: string;
  readonly limit?: string;
  readonly needs?: Quantity;
  readonly most?: Quantity;
  readonly used?: Quantity;
  readonly free?: Quantity;
  readonly missing?: Quantity;
  readonly heldByJobs?: Quantity;
  readonly heldByOthers?: Quantity;
  readonly nodes?: number;
  readonly pods?: number;
  readonly room?: number;
  readonly level?: string;
  readonly domain?: string;
  readonly behind?: JobRef;
  readonly behindPriority?: number;
}

/** Nodes that a constraint excludes. */
export interface ExcludedNodes {
  readonly constraint: string;
  readonly detail?: string;
  readonly count: number;
  readonly nodes?: readonly string[];
}

/** A node that matches a task group. */
export interface Candidate {
  readonly node: string;
  readonly room: number;
  readonly free: readonly Amount[];
}

/** How the nodes match a task group. */
export interface TaskGroupNodes {
  readonly name: string;
  readonly pods: number;
  readonly requests?: readonly Amount[];
  readonly flavors?: readonly string[];
  readonly nodes: number;
  readonly matching: number;
  readonly room: number;
  readonly excluded?: readonly ExcludedNodes[];
  readonly candidates?: readonly Candidate[];
}

/** A victim of the job. */
export interface Preempted extends JobRef {
  readonly pod?: string;
  /** Why the scheduler chose this gang. Absent: it is leaving already. */
  readonly because?: string;
}

/** Why a job waits, with current numbers. The page reads these fields. */
export interface Explanation {
  readonly time: Time;
  readonly queue: string;
  readonly priority: number;
  readonly position?: number;
  readonly reason?: string;
  readonly message: string;
  readonly shortage?: Shortage;
  readonly taskGroups?: readonly TaskGroupNodes[];
  readonly preempts?: readonly Preempted[];
  readonly preemptsOthers?: readonly { readonly count: number; readonly priority?: number }[];
  readonly protected?: readonly { readonly job?: JobRef; readonly until: Time }[];
  readonly reservedNodes?: readonly string[];
  readonly expectedStart?: Time;
}

/** One way that would help the job to start. */
export interface AnswerSection {
  readonly kind: "preemption" | "change" | "request" | "moves" | (string & {});
  readonly heading: string;
  readonly lines: readonly Sentence[];
  readonly note?: string;
}

/** The explanation in the words of `trellis explain`. */
export interface Answer {
  readonly word: string;
  readonly since?: Time;
  readonly reason?: string;
  readonly message: string;
  readonly place?: Sentence;
  readonly start?: Sentence;
  readonly sections: readonly AnswerSection[];
  readonly nextSteps?: string;
}

/** Answer of `GET /api/jobs/NS/NAME/why`. */
export interface WhyAnswer {
  readonly time: Time;
  readonly job?: TrainingJob;
  readonly podGroup?: { readonly metadata: ObjectMeta };
  readonly pod?: { readonly metadata: ObjectMeta };
  readonly jobState?: JobState;
  readonly explanation?: Explanation;
  readonly queue?: QueueState;
  readonly events: readonly EventLine[];
  readonly notes?: readonly string[];
  readonly answer: Answer;
}
