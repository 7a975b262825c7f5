import type { ComponentChildren } from "preact";

import type { IconName } from "../app/look/icons";
import { type Tone, phaseLook } from "../app/look/phases";
import { Icon } from "./Icon";
import { Name } from "./Text";

/** A state: an icon, a word and a colour. */
export function Badge(props: {
  readonly tone: Tone;
  readonly icon: IconName;
  readonly children: ComponentChildren;
}) {
  return (
    <span class={`badge tone-${props.tone}`}>
      <Icon name={props.icon} />
      {props.children}
    </span>
  );
}

/** The phase of a job. */
export function PhaseBadge({ phase }: { readonly phase: string }) {
  const look = phaseLook(phase);
  return (
    <Badge tone={look.tone} icon={look.icon}>
      <Name text={phase} />
    </Badge>
  );
}
