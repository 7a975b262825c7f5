/** The decision of the policies about a job: by which of them, and which permits are missing. */

import type { IconName } from "../app/look/icons";
import type { Tone } from "../app/look/phases";
import type { PolicyVerdict } from "../wire/job";
import { Badge } from "./Badge";
import { CopyButton } from "./Copy";
import { Text } from "./Text";
import { PolicyIdLink } from "./links";

const LOOKS: Readonly<Record<string, { readonly tone: Tone; readonly icon: IconName }>> = {
  Allowed: { tone: "good", icon: "check" },
  Denied: { tone: "bad", icon: "ban" },
};

/** Allowed, denied, or not decided. */
export function DecisionBadge({ policy }: { readonly policy: PolicyVerdict }) {
  const decision = policy.decision ?? "Undecided";
  const look = LOOKS[decision] ?? { tone: "waiting", icon: "clock" };
  return (
    <Badge tone={look.tone} icon={look.icon}>
      <Text text={decision} max={40} />
    </Badge>
  );
}

/** The reasons of a decision. Permits can be copied into a policy. */
export function DecisionDetails({ policy }: { readonly policy: PolicyVerdict }) {
  const ids = policy.policies ?? [];
  return (
    <div class="policy">
      {ids.length > 0 && (
        <>
          <h3>Decided by</h3>
          <ul class="plain">
            {ids.map((id) => (
              <li key={id}>
                <PolicyIdLink id={id} />
              </li>
            ))}
          </ul>
        </>
      )}
      {(policy.missingPermits ?? []).map((permit) => (
        <div key={permit}>
          <h3>
            Missing permit <CopyButton text={permit} what="permit" />
          </h3>
          <pre>
            <Text text={permit} max={4_000} lines />
          </pre>
        </div>
      ))}
      <TextList title="Errors" texts={policy.errors} isBad />
      <TextList title="Would be denied, if enforced" texts={policy.warnings} />
    </div>
  );
}

function TextList(props: {
  readonly title: string;
  readonly texts: readonly string[] | undefined;
  readonly isBad?: boolean;
}) {
  const texts = props.texts ?? [];
  if (texts.length === 0) return null;
  return (
    <>
      <h3>{props.title}</h3>
      <ul class={props.isBad ? "plain is-bad" : "plain"}>
        {texts.map((text) => (
          <li key={text}>
            <Text text={text} />
          </li>
        ))}
      </ul>
    </>
  );
}
