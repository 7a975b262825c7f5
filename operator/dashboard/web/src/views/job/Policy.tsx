import { Card } from "../../parts/Card";
import { DecisionBadge, DecisionDetails } from "../../parts/PolicyDecision";
import type { PolicyVerdict } from "../../wire/job";

/** The decision of the policies about this job. */
export function Policy({ policy }: { readonly policy: PolicyVerdict }) {
  return (
    <Card title="Policy" aside={<DecisionBadge policy={policy} />}>
      <div class="card-text">
        <DecisionDetails policy={policy} />
      </div>
    </Card>
  );
}
