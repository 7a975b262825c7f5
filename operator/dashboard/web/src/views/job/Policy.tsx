import type { IconName } from "../../app/look/icons";
import type { Tone } from "../../app/look/phases";
import { Badge } from "../../parts/Badge";
import { Card } from "../../parts/Card";
import { CopyButton } from "../../parts/Copy";
import { Text } from "../../parts/Text";
import type { PolicyVerdict } from "../../wire/job";

const LOOKS: Readonly<Record<string, { readonly tone: Tone; readonly icon: IconName }>> = {
  Allowed: { tone: "good", icon: "check" },
  Denied: { tone: "bad", icon: "ban" },
};

/** The decision of the policies: by which of them, and which permits are missing. */
export function Policy({ policy }: { readonly policy: PolicyVerdict }) {
  const decision = policy.decision ?? "Undecided";
  const look = LOOKS[decision] ?? { tone: "waiting", icon: "clock" };
  return (
    <Card
      title="Policy"
      aside={
        <Badge tone={look.tone} icon={look.icon}>
          <Text text={decision} max={40} />
        </Badge>
      }
    >
      <div class="card-text policy">
        <List title="Decided by" texts={policy.policies} />
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
        <List title="Errors" texts={policy.errors} isBad />
        <List title="Would be denied, if enforced" texts={policy.warnings} />
      </div>
    </Card>
  );
}

function List(props: {
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
