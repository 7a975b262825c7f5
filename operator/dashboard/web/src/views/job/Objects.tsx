import type { IconName } from "../../app/look/icons";
import { Card } from "../../parts/Card";
import { Icon } from "../../parts/Icon";
import { Name, Text } from "../../parts/Text";
import type { ObjectLine, StatusReport } from "../../wire/job";

const STATES: Readonly<Record<string, { readonly text: string; readonly icon: IconName; readonly isBad: boolean }>> = {
  there: { text: "there", icon: "check", isBad: false },
  missing: { text: "missing", icon: "cross", isBad: true },
  notOurs: { text: "not ours", icon: "warning", isBad: true },
  forbidden: { text: "forbidden: you may not read it", icon: "ban", isBad: false },
  unread: { text: "not read", icon: "help", isBad: false },
};

/** The objects that the job was compiled into. */
export function Objects({ report }: { readonly report: StatusReport }) {
  if (report.objects.length === 0) return null;
  // The operator removes the objects of a job some time after its end.
  const hasEnded = report.job.status?.completionTime !== undefined;
  return (
    <Card title="Objects">
      <ul class="objects">
        {report.objects.map((object) => (
          <li key={`${object.kind}/${object.name}`}>
            <ObjectState object={object} hasEnded={hasEnded} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

function ObjectState({ object, hasEnded }: { readonly object: ObjectLine; readonly hasEnded: boolean }) {
  const known = STATES[object.state] ?? { text: object.state, icon: "help" as const, isBad: false };
  const isBad = known.isBad && !(hasEnded && object.state === "missing");
  return (
    <>
      <span class={isBad ? "object-state is-bad" : "object-state"}>
        <Icon name={known.icon} label={known.text} />
      </span>
      <span>
        <Name text={object.kind} /> <Name text={object.name} />
        {object.state !== "there" && <span class="dim"> {known.text}</span>}
        {object.problem && (
          <span class="is-bad">
            {" "}
            <Text text={object.problem} />
          </span>
        )}
      </span>
    </>
  );
}
