import { urls } from "../../app/page/route";
import { policyState } from "../../app/policy/policy-state";
import { perJobTexts, subjectTexts } from "../../app/policy/quota-use";
import { Name, Text } from "../../parts/Text";
import type { QuotaPolicy } from "../../wire/policy";
import { Enforcement, PolicyStateBadge } from "./PolicyBadges";
import { PolicyConditions } from "./PolicyConditions";
import { QuotaBars } from "./QuotaBars";

/** Holders in a list. The page of the policy has all that the status lists. */
const MAX_HOLDERS = 3;

/** A QuotaPolicy in a list. */
export function QuotaPolicyRow({ policy }: { readonly policy: QuotaPolicy }) {
  const state = policyState(policy);
  const perJob = perJobTexts(policy.limits);
  return (
    <li class="policy-row">
      <div class="policy-row-head">
        <a class="policy-name" href={urls.policy({ kind: "QuotaPolicy", name: policy.name })} data-row>
          <Name text={policy.name} />
        </a>
        <PolicyStateBadge state={state} />
        <Enforcement enforcement={policy.enforcement} />
      </div>
      <p class="dim">
        <Text text={subjectTexts(policy).join("; ")} />
        {policy.each === "Requester" && ", for each user"}
        {perJob.length > 0 && `; each job: ${perJob.join(", ")}`}
      </p>
      <PolicyConditions conditions={state.problems} />
      <QuotaBars policy={policy} most={MAX_HOLDERS} />
    </li>
  );
}
