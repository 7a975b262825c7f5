import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { rowsInView } from "../app/list/virtual";
import { viewport } from "../app/page/viewport";

const OVERSCAN = 12;

/** Rows of fixed height, of which only those in view are in the document. */
export function VirtualRows(props: {
  readonly keys: readonly string[];
  readonly rowHeight: number;
  readonly row: (key: string, index: number) => ComponentChildren;
}) {
  const { keys, rowHeight, row } = props;
  const element = useRef<HTMLDivElement>(null);
  const [offset, setOffset] = useState(0);
  const [focused, setFocused] = useState<string | undefined>(undefined);
  const view = viewport.value;

  // What stands above the list may change its height with each render.
  useLayoutEffect(() => {
    const box = element.current?.getBoundingClientRect();
    if (box) setOffset(Math.round(box.top + scrollY));
  });

  const above = view.top - offset;
  const range = rowsInView({
    count: keys.length,
    rowHeight,
    above,
    viewHeight: view.height,
    overscan: OVERSCAN,
  });
  const indexes = Array.from({ length: range.end - range.first }, (_, place) => range.first + place);
  // The focused row stays, so that the keyboard does not lose its place.
  const focusedIndex = focused === undefined ? -1 : keys.indexOf(focused);
  if (focusedIndex >= 0 && (focusedIndex < range.first || focusedIndex >= range.end)) indexes.push(focusedIndex);

  return (
    <div
      ref={element}
      class="virtual-rows"
      role="rowgroup"
      style={{ height: `${keys.length * rowHeight}px` }}
      onFocusIn={(event) => {
        const own = event.target instanceof Element ? event.target.closest("[data-key]") : null;
        setFocused(own?.getAttribute("data-key") ?? undefined);
      }}
      onFocusOut={() => setFocused(undefined)}
    >
      {indexes.map((index) => {
        const key = keys[index] ?? "";
        return (
          <div
            key={key}
            class="virtual-row"
            role="row"
            aria-rowindex={index + 2}
            data-key={key}
            style={{ transform: `translateY(${index * rowHeight}px)`, height: `${rowHeight}px` }}
          >
            {row(key, index)}
          </div>
        );
      })}
    </div>
  );
}
