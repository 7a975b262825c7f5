/** The cursor of the text area. */

import { offsetOf } from "../../app/plan/draft";

/** Moves the cursor to a line and a column, both from 1, and scrolls there. */
export function moveCursor(area: HTMLTextAreaElement, line: number, column: number): void {
  const offset = offsetOf(area.value, line, column);
  area.focus({ preventScroll: true });
  area.setSelectionRange(offset, offset);
  const { lineHeight, fontSize } = getComputedStyle(area);
  const height = Number.parseFloat(lineHeight);
  const top = (line - 1) * height;
  const isInView = top >= area.scrollTop && top + height <= area.scrollTop + area.clientHeight;
  if (!isInView) area.scrollTop = top - area.clientHeight / 2;
  // A character of a monospace font is about 0.6 as wide as its size.
  const left = (column - 1) * Number.parseFloat(fontSize) * 0.6;
  if (left < area.scrollLeft || left > area.scrollLeft + area.clientWidth - 40) {
    area.scrollLeft = left - area.clientWidth / 2;
  }
  area.scrollIntoView({ block: "nearest" });
}
