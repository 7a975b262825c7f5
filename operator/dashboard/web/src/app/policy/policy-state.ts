/** The state of a policy in a word, and which policies need an action first. Pure. */

import type { Condition } from "../../wire/job";
import type { JobPolicy, JobVerdict, QuotaPolicy } from "../../wire/policy";
import type { IconName } from "../look/icons";
import type { Tone } from "../look/phases";

/** The state of a policy. */
export interface PolicyState {
  readonly word: string;
  readonly tone: Tone;
  readonly icon: IconName;
  /** Conditions that need an action or an explanation. */
  readonly problems: readonly Condition[];
  /** Policies with a smaller rank come first. */
  readonly rank: number;
}

type AnyPolicy = Pick<JobPolicy | QuotaPolicy, "generation" | "status">;

/** Conditions that report a problem if they are true. The reconciler is at work, or stopped. */
const BAD_IF_TRUE = ["Stalled", "Degraded"];

/** Reads the state of a policy from its conditions. */
export function policyState(policy: AnyPolicy): PolicyState {
  const conditions = policy.status?.conditions ?? [];
  const isTrue = (type: string): boolean => conditions.some((own) => own.type === type && own.status === "True");
  const active = conditions.find((own) => own.type === "Active");
  const problems = conditions.filter((own) => BAD_IF_TRUE.includes(own.type) && own.status === "True");
  if (!active || isOutdated(policy)) {
    return { word: "Not read yet", tone: "waiting", icon: "clock", problems, rank: 2 };
  }
  if (active.status !== "True") {
    // A policy without effect may have no other condition that says why.
    const causes = problems.length > 0 ? problems : [active];
    return { word: "Not active", tone: "bad", icon: "ban", problems: causes, rank: 0 };
  }
  if (isTrue("Stalled") || isTrue("Degraded")) {
    return { word: "Degraded", tone: "bad", icon: "warning", problems, rank: 1 };
  }
  return { word: "Active", tone: "good", icon: "check", problems: [], rank: 4 };
}

/** True if the status describes an older spec. */
function isOutdated({ generation, status }: AnyPolicy): boolean {
  return generation !== undefined && status?.observedGeneration !== undefined && status.observedGeneration < generation;
}

/** Number of jobs that a policy denies without refusing them. */
export function violationCount(policy: JobPolicy): number {
  return policy.status?.violationCount ?? policy.status?.violations?.length ?? 0;
}

/** What a policy does to the jobs that violate it, in words. */
export function violationWords(policy: JobPolicy): string {
  if (policy.enforcement === "Deny") return policy.onViolation === "Evict" ? "run and are evicted" : "run, and would be refused now";
  return policy.enforcement === "Warn" ? "are warned" : "would be denied";
}

/** Sorts policies: those that need an action first, then by kind, namespace and name. */
export function sortJobPolicies(policies: readonly JobPolicy[]): JobPolicy[] {
  return policies.toSorted(
    (a, b) => rankOf(a) - rankOf(b) || violationCount(b) - violationCount(a) || compareText(keyOf(a), keyOf(b)),
  );
}

function rankOf(policy: JobPolicy): number {
  const { rank } = policyState(policy);
  return violationCount(policy) > 0 ? Math.min(rank, 3) : rank;
}

/** Returns a key that no other policy has. */
export function keyOf(policy: JobPolicy): string {
  return `${policy.kind} ${policy.namespace ?? ""} ${policy.name}`;
}

/** Sorts quota policies: those that need an action first, then those without room. */
export function sortQuotaPolicies(policies: readonly QuotaPolicy[]): QuotaPolicy[] {
  const rank = (policy: QuotaPolicy): number => {
    const own = policyState(policy).rank;
    return (policy.status?.fullCount ?? 0) > 0 ? Math.min(own, 3) : own;
  };
  return policies.toSorted((a, b) => rank(a) - rank(b) || compareText(a.name, b.name));
}

const DECISIONS = ["Denied", "Undecided"];

/** Sorts jobs: the denied ones first, then those without a decision, then those that are warned. */
export function sortVerdicts(jobs: readonly JobVerdict[]): JobVerdict[] {
  const rank = ({ policy }: JobVerdict): number => {
    const place = DECISIONS.indexOf(policy.decision ?? "Undecided");
    return place < 0 ? DECISIONS.length : place;
  };
  return jobs.toSorted(
    (a, b) => rank(a) - rank(b) || compareText(a.namespace, b.namespace) || compareText(a.name, b.name),
  );
}

function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
