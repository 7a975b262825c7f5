import { urls } from "../../app/page/route";
import { policyState, violationCount, violationWords } from "../../app/policy/policy-state";
import { selectorText } from "../../app/policy/quota-use";
import { countOf } from "../../app/text/format";
import { Name, Text } from "../../parts/Text";
import type { JobPolicy } from "../../wire/policy";
import { Enforcement, PolicyStateBadge } from "./PolicyBadges";
import { PolicyConditions } from "./PolicyConditions";

/** A ClusterJobPolicy or a JobPolicy in a list. */
export function JobPolicyRow({ policy }: { readonly policy: JobPolicy }) {
  const state = policyState(policy);
  const violations = violationCount(policy);
  return (
    <li class="policy-row">
      <div class="policy-row-head">
        <a class="policy-name" href={urls.policy(policy)} data-row>
          {policy.namespace !== undefined && (
            <span class="namespace">
              <Name text={policy.namespace} />/
            </span>
          )}
          <Name text={policy.name} />
        </a>
        <PolicyStateBadge state={state} />
        <Enforcement enforcement={policy.enforcement} />
        {violations > 0 && (
          <span class="waits">
            {countOf(violations, "job")} {violationWords(policy)}
          </span>
        )}
      </div>
      <p class="dim">
        {policy.kind}, <Text text={policy.namespace === undefined ? selectorText(policy.namespaceSelector) : `namespace ${policy.namespace}`} />,{" "}
        {countOf(policy.status?.policyIds?.length ?? 0, "policy", "policies")} in effect
      </p>
      <PolicyConditions conditions={state.problems} />
    </li>
  );
}
