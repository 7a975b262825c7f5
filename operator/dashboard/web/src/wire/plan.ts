/** Types of `POST /api/plan`: what the operator says about jobs, in the words of `trellis plan`. */

/** The jobs to plan. */
export interface PlanRequest {
  /** Namespace of jobs that name none. Undefined: the namespace of the kubeconfig's context, if there is one. */
  readonly namespace?: string;
  readonly yaml: string;
}

/** The plan, or the problems of the text. */
export interface PlanAnswer {
  /** The jobs in the order of the text. Empty: the text has problems. */
  readonly jobs: readonly PlannedJob[];
  readonly notes: readonly string[];
  readonly problems: readonly PlanProblem[];
}

/** Verdict on a job. Another version of Trellis may send other words. */
export type PlanVerdict = "would run" | "would wait" | "would be Refused" | "would not run" | (string & {});

/** A planned job. */
export interface PlannedJob {
  readonly namespace: string;
  readonly name: string;
  readonly verdict: PlanVerdict;
  readonly runs: boolean;
  readonly reason?: string;
  /** Names of the nodes that it would get, sorted. Empty: it would get none, or the user may not read nodes. */
  readonly nodes: readonly string[];
  readonly sections: readonly PlanSection[];
}

/** Lines about one subject, such as `objects`. */
export interface PlanSection {
  readonly name: string;
  readonly lines: readonly string[];
}

/** A problem of the text. */
export interface PlanProblem {
  /** Line, from 1. 0: the problem is about the whole text. */
  readonly line: number;
  /** Column in characters, from 1. */
  readonly column: number;
  /** Path of the field. Empty: the problem is about the whole object. */
  readonly field: string;
  readonly message: string;
  /** The line with its number, and a mark below the column. Empty: there is no such line. */
  readonly snippet: string;
}
