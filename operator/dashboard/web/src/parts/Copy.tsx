import { useState } from "preact/hooks";

import { copyText } from "../app/page/copy";
import { Icon } from "./Icon";

const SHOWN_MS = 1_500;

/** A button that copies a text. */
export function CopyButton({ text, what }: { readonly text: string; readonly what: string }) {
  const [isDone, setDone] = useState(false);
  return (
    <button
      type="button"
      class="icon-button copy"
      aria-label={`Copy ${what}`}
      title={`Copy ${what}`}
      onClick={async () => {
        if (!(await copyText(text, what))) return;
        setDone(true);
        setTimeout(() => setDone(false), SHOWN_MS);
      }}
    >
      <Icon name={isDone ? "check" : "copy"} />
    </button>
  );
}

/** A command line with a button that copies it. */
export function Command({ text, label }: { readonly text: string; readonly label?: string }) {
  return (
    <div class="command">
      {label !== undefined && <span class="command-label">{label}</span>}
      <code tabIndex={0}>{text}</code>
      <CopyButton text={text} what="command" />
    </div>
  );
}
