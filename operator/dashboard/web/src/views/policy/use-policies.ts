import { type Polled, usePolled } from "../../app/live/poll";
import { scope, session } from "../../app/live/store";
import { useNamespaceScope } from "../../app/page/namespace-scope";
import { query } from "../../app/page/route";
import type { PoliciesAnswer } from "../../wire/policy";

/** The answer holds all jobs that policies deny or warn: it is read rarely. */
const POLL_MS = 15_000;

/** Policies of all namespaces, or of the one that the URL names. */
export function usePolicies(): Polled<PoliciesAnswer> & { readonly namespace: string | undefined } {
  useNamespaceScope();
  const current = session.value;
  const asked = query.value.get("namespace") || undefined;
  const namespace = current?.may.allJobs === false ? scope.value : asked;
  const suffix = namespace === undefined ? "" : `?namespace=${encodeURIComponent(namespace)}`;
  return { ...usePolled<PoliciesAnswer>(current && `/api/policies${suffix}`, POLL_MS, undefined), namespace };
}
