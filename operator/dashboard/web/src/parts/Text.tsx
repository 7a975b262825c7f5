/** Text of the cluster: always a text node, isolated from the text around it, and cut when it is long. */

import { useState } from "preact/hooks";

import { cleanLine, cleanLines, cutText } from "../app/text/clean";

/** Characters that one click on "more" adds. */
const MORE = 20_000;
const NAME_LENGTH = 120;
const TITLE_LENGTH = 600;

interface TextProps {
  readonly text: string;
  /** Characters that are shown at first. */
  readonly max?: number;
  /** True: line breaks stay. */
  readonly lines?: boolean;
}

/** A text that may be long, with a button for the rest. */
export function Text({ text, max = 600, lines = false }: TextProps) {
  const [length, setLength] = useState(max);
  // Text of 1 MiB is cut before it is cleaned: most of it is never shown.
  const cut = cutText(text, length);
  const shown = lines ? cleanLines(cut.text) : cleanLine(cut.text);
  return (
    <>
      <bdi class={lines ? "text lines" : "text"}>{shown}</bdi>
      {cut.isCut && (
        <>
          {"… "}
          <button type="button" class="more" onClick={() => setLength(length + MORE)}>
            more
          </button>
        </>
      )}
    </>
  );
}

/** A name, on one line. */
export function Name({ text }: { readonly text: string }) {
  const cut = cutText(text, NAME_LENGTH);
  if (!cut.isCut) return <bdi class="name">{cleanLine(text)}</bdi>;
  return (
    <bdi class="name" title={cleanLine(cutText(text, TITLE_LENGTH).text)}>
      {cleanLine(cut.text)}…
    </bdi>
  );
}
