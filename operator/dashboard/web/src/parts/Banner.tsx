import type { ComponentChildren } from "preact";

import type { IconName } from "../app/look/icons";
import { Icon } from "./Icon";

const ICONS: Readonly<Record<"info" | "warning" | "bad", IconName>> = {
  info: "info",
  warning: "warning",
  bad: "stop",
};

/** A message above the content, which stays until its cause is gone. */
export function Banner(props: {
  readonly tone: "info" | "warning" | "bad";
  readonly title: string;
  readonly children?: ComponentChildren;
  readonly action?: ComponentChildren;
}) {
  return (
    <div class={`banner banner-${props.tone}`}>
      <Icon name={ICONS[props.tone]} />
      <div class="banner-text">
        <strong>{props.title}</strong>
        {props.children && <div>{props.children}</div>}
      </div>
      {props.action}
    </div>
  );
}

/** A message in the place of content that does not exist. */
export function Empty(props: { readonly title: string; readonly icon?: IconName; readonly children?: ComponentChildren }) {
  return (
    <div class="empty">
      <Icon name={props.icon ?? "info"} />
      <div>
        <p class="empty-title">{props.title}</p>
        {props.children}
      </div>
    </div>
  );
}

/** The place of content that is being loaded. It keeps its size, so that the page does not jump. */
export function Loading({ rows = 4 }: { readonly rows?: number }) {
  return (
    <div class="loading" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, place) => (
        <div key={place} class="loading-row" />
      ))}
    </div>
  );
}
