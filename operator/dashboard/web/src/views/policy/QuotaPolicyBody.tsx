import { policyState } from "../../app/policy/policy-state";
import { perJobTexts, subjectTexts } from "../../app/policy/quota-use";
import { command } from "../../app/text/shell-quote";
import { Card, Facts } from "../../parts/Card";
import { Command } from "../../parts/Copy";
import { Name, Text } from "../../parts/Text";
import type { QuotaPolicy } from "../../wire/policy";
import { PolicyStateBadge } from "./PolicyBadges";
import { PolicyConditions } from "./PolicyConditions";
import { QuotaBars } from "./QuotaBars";

/** The status lists at most 20 holders. */
const MAX_HOLDERS = 20;

/** A QuotaPolicy: usage of each limit and holder, and its state. */
export function QuotaPolicyBody({ policy }: { readonly policy: QuotaPolicy }) {
  const perJob = perJobTexts(policy.limits);
  return (
    <>
      <div class="queue-page">
        <Card title="Usage">
          <div class="card-text">
            <QuotaBars policy={policy} most={MAX_HOLDERS} />
          </div>
        </Card>
        <Card title="QuotaPolicy" aside={<PolicyStateBadge state={policyState(policy)} />}>
          <Facts
            facts={[
              {
                term: "Limits",
                value: subjectTexts(policy).map((text) => (
                  <div key={text}>
                    <Text text={text} />
                  </div>
                )),
              },
              { term: "Holder", value: policy.each === "Requester" ? "each user" : "all jobs together" },
              { term: "Without room", value: <Enforced enforcement={policy.enforcement} /> },
              perJob.length > 0 && { term: "Each job", value: perJob.join(", ") },
              policy.status?.gpuHoursLeft !== undefined && { term: "GPU-hours left", value: <Name text={policy.status.gpuHoursLeft} /> },
            ]}
          />
          <div class="card-text">
            <PolicyConditions conditions={policy.status?.conditions ?? []} />
          </div>
        </Card>
      </div>
      <Command label="Same in a terminal" text={command("kubectl", "get", "quotapolicy", policy.name, "-o", "yaml")} />
    </>
  );
}

const EFFECTS: Readonly<Record<string, string>> = {
  Queue: "jobs wait",
  Deny: "jobs are refused",
  Warn: "jobs run, with a warning",
};

function Enforced({ enforcement }: { readonly enforcement: string }) {
  const effect = EFFECTS[enforcement];
  return (
    <>
      {effect !== undefined && `${effect}, `}
      <Name text={enforcement} />
    </>
  );
}
