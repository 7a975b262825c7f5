/** Types of `GET /api/policies`: policies with their status, and the jobs that they affect. */

import type { JobPhase, Quantity, Time } from "./cluster";
import type { Condition, PolicyVerdict } from "./job";

/** A job that a policy denies without refusing it. */
export interface PolicyViolation {
  readonly namespace: string;
  readonly job: string;
  readonly policies: readonly string[];
  readonly message: string;
}

/** Status of a ClusterJobPolicy or a JobPolicy. */
export interface JobPolicyStatus {
  readonly observedGeneration?: number;
  readonly policyIds?: readonly string[];
  readonly activeSetHash?: string;
  readonly violations?: readonly PolicyViolation[];
  readonly violationCount?: number;
  readonly conditions?: readonly Condition[];
}

/** Labels that an object must have. */
export interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: string;
    readonly values?: readonly string[];
  }[];
}

/** A ClusterJobPolicy or a JobPolicy. */
export interface JobPolicy {
  readonly kind: "ClusterJobPolicy" | "JobPolicy";
  readonly namespace?: string;
  readonly name: string;
  readonly generation?: number;
  readonly cedar: string;
  /** `Deny`, `Warn` or `Audit`. */
  readonly enforcement: string;
  /** `Report` or `Evict`. */
  readonly onViolation: string;
  readonly namespaceSelector?: LabelSelector;
  readonly testCount: number;
  readonly status?: JobPolicyStatus;
}

/** Usage of one limit: `runningJobs`, `gpuHours`, or a resource with its flavor. */
export interface QuotaUse {
  readonly limit: string;
  readonly used: Quantity;
  readonly max: Quantity;
}

/** A holder of limits. Without a requester: the subject as a whole; empty: all unknown users. */
export interface QuotaHolder {
  readonly requester?: string;
  readonly uses: readonly QuotaUse[];
}

/** Status of a QuotaPolicy. */
export interface QuotaPolicyStatus {
  readonly observedGeneration?: number;
  readonly holders?: readonly QuotaHolder[];
  readonly holderCount?: number;
  readonly fullCount?: number;
  readonly gpuHoursLeft?: Quantity;
  readonly conditions?: readonly Condition[];
}

/** The jobs that a QuotaPolicy limits. A job must match every field. */
export interface QuotaSubject {
  readonly namespaceSelector?: LabelSelector;
  readonly team?: string;
  readonly queueName?: string;
  readonly serviceAccountName?: string;
  readonly requester?: string;
}

/** The limits of a QuotaPolicy that its status does not list. */
export interface QuotaLimits {
  readonly podsPerJob?: number;
  readonly gpusPerJob?: number;
  readonly runtimeSecondsPerJob?: number;
  readonly gpuHours?: { readonly limit: number; readonly windowHours: number };
}

/** A QuotaPolicy. */
export interface QuotaPolicy {
  readonly name: string;
  readonly generation?: number;
  readonly subject: QuotaSubject;
  /** `Subject` or `Requester`. */
  readonly each: string;
  /** `Queue`, `Deny` or `Warn`. */
  readonly enforcement: string;
  readonly limits: QuotaLimits;
  readonly status?: QuotaPolicyStatus;
}

/** A job that policies deny or warn, or have not decided on. */
export interface JobVerdict {
  readonly namespace: string;
  readonly name: string;
  readonly phase?: JobPhase;
  readonly policy: PolicyVerdict;
  /** Why the job is not accepted. */
  readonly refusal?: Condition;
}

/** Answer of `GET /api/policies`. */
export interface PoliciesAnswer {
  readonly time: Time;
  readonly jobPolicies: readonly JobPolicy[];
  readonly quotaPolicies: readonly QuotaPolicy[];
  readonly jobs: readonly JobVerdict[];
  /** Number of such jobs, including those that are not listed. */
  readonly jobCount: number;
  /** Plural names of the kinds that could not be read at all. The notes say why. */
  readonly unread: readonly string[];
  readonly notes: readonly string[];
}
