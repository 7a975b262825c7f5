import { Name, Text } from "../../parts/Text";
import { Ago } from "../../parts/Time";
import type { Condition } from "../../wire/job";

/** Conditions with their reasons. */
export function PolicyConditions({ conditions }: { readonly conditions: readonly Condition[] }) {
  if (conditions.length === 0) return null;
  return (
    <ul class="policy-conditions">
      {conditions.map((condition) => (
        <li key={condition.type}>
          <b>
            <Name text={condition.type} />
          </b>{" "}
          <Name text={condition.status} />, <Name text={condition.reason} />: <Text text={condition.message} max={1_000} />{" "}
          <span class="dim">
            <Ago time={condition.lastTransitionTime} />
          </span>
        </li>
      ))}
    </ul>
  );
}
