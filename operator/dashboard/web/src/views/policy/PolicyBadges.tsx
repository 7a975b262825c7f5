import type { PolicyState } from "../../app/policy/policy-state";
import { Badge } from "../../parts/Badge";
import { Name } from "../../parts/Text";

/** Whether a policy takes effect. */
export function PolicyStateBadge({ state }: { readonly state: PolicyState }) {
  return (
    <Badge tone={state.tone} icon={state.icon}>
      {state.word}
    </Badge>
  );
}

/** The enforcement of a policy, as the spec has it. */
export function Enforcement({ enforcement }: { readonly enforcement: string }) {
  return (
    <span class="policy-mode">
      <Name text={enforcement} />
    </span>
  );
}
