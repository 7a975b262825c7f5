/** Policies for tests. */

import type { Condition } from "../../../src/wire/job";
import type { JobPolicy, JobVerdict, PoliciesAnswer, QuotaPolicy } from "../../../src/wire/policy";

export function makeCondition(type: string, status: string, reason = type, message = ""): Condition {
  return { type, status, reason, message, lastTransitionTime: "2026-01-01T00:00:00Z" };
}

export const ACTIVE: readonly Condition[] = [makeCondition("Active", "True"), makeCondition("Degraded", "False")];

export function makeJobPolicy(name: string, more: Partial<JobPolicy> = {}): JobPolicy {
  return {
    kind: "ClusterJobPolicy",
    name,
    generation: 1,
    cedar: "",
    enforcement: "Deny",
    onViolation: "Report",
    testCount: 0,
    status: { observedGeneration: 1, conditions: ACTIVE },
    ...more,
  };
}

export function makeQuotaPolicy(name: string, more: Partial<QuotaPolicy> = {}): QuotaPolicy {
  return {
    name,
    generation: 1,
    subject: {},
    each: "Subject",
    enforcement: "Queue",
    limits: {},
    status: { observedGeneration: 1, conditions: ACTIVE },
    ...more,
  };
}

export function makeVerdict(name: string, decision: string | undefined, more: Partial<JobVerdict> = {}): JobVerdict {
  return { namespace: "ml", name, policy: decision === undefined ? {} : { decision }, ...more };
}

export function makeAnswer(more: Partial<PoliciesAnswer> = {}): PoliciesAnswer {
  return { time: "2026-01-01T00:00:00Z", jobPolicies: [], quotaPolicies: [], jobs: [], jobCount: 0, unread: [], notes: [], ...more };
}
