import type { IconName } from "../../app/look/icons";
import { urls } from "../../app/page/route";
import { Card } from "../../parts/Card";
import { Icon } from "../../parts/Icon";
import { Sentence, nodesOf } from "../../parts/Sentence";
import { Text } from "../../parts/Text";
import type { Answer, AnswerSection } from "../../wire/job";

const ICONS: Readonly<Record<string, IconName>> = {
  preemption: "stop",
  change: "raise",
  request: "edit",
  moves: "swap",
};

/** What would let the job start, in the words of `trellis explain`. */
export function WhatHelps({ answer }: { readonly answer: Answer }) {
  if (answer.sections.length === 0 && !answer.nextSteps) return null;
  return (
    <Card title="What would help">
      <div class="helps">
        {answer.sections.map((section) => (
          <Section key={section.heading} section={section} />
        ))}
        {answer.nextSteps && (
          <section class="help-section">
            <h3>
              <Icon name="flag" />
              Next steps
            </h3>
            <p>
              <Text text={answer.nextSteps} max={2_000} />
            </p>
          </section>
        )}
      </div>
    </Card>
  );
}

function Section({ section }: { readonly section: AnswerSection }) {
  const [node] = nodesOf(section.lines);
  return (
    <section class="help-section">
      <h3>
        <Icon name={ICONS[section.kind] ?? "flag"} />
        <span>
          <Text text={section.heading} />
          {node !== undefined && (
            <a class="help-map" href={urls.nodes({ at: node })}>
              <Icon name="map" /> show on map
            </a>
          )}
        </span>
      </h3>
      <ul>
        {section.lines.map((line, place) => (
          <li key={place}>
            <Sentence spans={line} />
          </li>
        ))}
      </ul>
      {section.note && (
        <p class="dim">
          <Text text={section.note} />
        </p>
      )}
    </section>
  );
}
