/** Which policy a text means: the ids in decisions, and the objects of a URL. Pure. */

import type { JobPolicy, PoliciesAnswer, QuotaPolicy } from "../../wire/policy";

/** The kinds of policies. */
export type PolicyKind = JobPolicy["kind"] | "QuotaPolicy";

/** A policy object. */
export interface PolicyRef {
  readonly kind: PolicyKind;
  readonly namespace?: string | undefined;
  readonly name: string;
}

/**
 * Returns the object of a policy id, as decisions have it: `NAME/ID` of a ClusterJobPolicy, and
 * `NAMESPACE/NAME/ID` of a JobPolicy. Undefined: a fixed rule of Trellis, which is no object.
 */
export function refOfId(id: string): PolicyRef | undefined {
  const [first, second, third, ...rest] = id.split("/");
  if (!first || !second || rest.length > 0) return undefined;
  if (third === undefined) return { kind: "ClusterJobPolicy", name: first };
  return { kind: "JobPolicy", namespace: first, name: second };
}

/** True if the id is of a policy of this object. */
export function isIdOf(id: string, policy: JobPolicy): boolean {
  const ref = refOfId(id);
  return ref?.kind === policy.kind && ref.namespace === policy.namespace && ref.name === policy.name;
}

/** The policies that a URL means. */
export interface NamedPolicies {
  readonly jobPolicies: readonly JobPolicy[];
  readonly quotaPolicies: readonly QuotaPolicy[];
}

/** Returns the policies of a name. Different kinds, and different namespaces, may have the same name. */
export function findPolicies(answer: PoliciesAnswer, name: string, kind?: string): NamedPolicies {
  const isKind = (own: PolicyKind): boolean => kind === undefined || kind === own;
  return {
    jobPolicies: answer.jobPolicies.filter((policy) => policy.name === name && isKind(policy.kind)),
    quotaPolicies: isKind("QuotaPolicy") ? answer.quotaPolicies.filter((policy) => policy.name === name) : [],
  };
}
