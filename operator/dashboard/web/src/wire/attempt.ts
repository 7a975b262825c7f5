/** Types of the answer about ended attempts: `trellis history -o json`. */

import type { JobPhase, ObjectMeta, Time } from "./cluster";
import type { LastFailure } from "./job";

/** An attempt of a TrainingJob that has ended. */
export interface EndedAttempt {
  readonly metadata: ObjectMeta;
  /** Name of the job. Its namespace is that of `metadata`. */
  readonly job: string;
  readonly uid: string;
  readonly attempt: number;
  readonly queue: string;
  readonly user?: string;
  readonly gpus: number;
  readonly nodeCount?: number;
  readonly placed: Time;
  /** Time at which all pods first ran together. Absent: they never did. */
  readonly running?: Time;
  readonly ended: Time;
  /** Phase of the job after the attempt. Absent: the job was deleted. */
  readonly phase?: JobPhase;
  readonly reason?: string;
  readonly message?: string;
  readonly failure?: LastFailure;
  readonly preempted?: boolean;
  /** Time of the last checkpoint. */
  readonly checkpoint?: Time;
}

/** Answer of `GET /api/attempts`, the last to end at the end. */
export interface AttemptsAnswer {
  readonly time: Time;
  readonly attempts: readonly EndedAttempt[];
}
