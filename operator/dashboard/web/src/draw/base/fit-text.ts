/** Draws text that is cut to a width. */

import { cleanLine } from "../../app/text/clean";
import type { DrawContext } from "./patterns";

/** Which end of a text is kept when it is cut. Names of nodes differ in their last characters. */
export type KeptEnd = "start" | "end";

const ELLIPSIS = "…";

/** Greatest number of characters that are measured: messages may be long. */
const MAX_CHARACTERS = 200;

/** Greatest number of remembered widths. */
const MAX_WIDTHS = 20_000;

const widths = new Map<string, number>();

/**
 * Returns text of the cluster on one line, cut to a width, in pixels of the context, with the font
 * of the context.
 */
export function fitText(context: DrawContext, raw: string, width: number, kept: KeptEnd): string {
  const text = cleanLine(kept === "start" ? raw.slice(0, MAX_CHARACTERS) : raw.slice(-MAX_CHARACTERS));
  const whole = widthOf(context, text);
  if (whole <= width) return text;
  let length = Math.floor((text.length * width) / whole);
  while (length > 0) {
    const cut = kept === "start" ? text.slice(0, length) + ELLIPSIS : ELLIPSIS + text.slice(text.length - length);
    if (widthOf(context, cut) <= width) return cut;
    length -= 1;
  }
  return "";
}

/** Returns the width of a text with the font of the context. */
export function widthOf(context: DrawContext, text: string): number {
  const key = `${context.font}\n${text}`;
  const known = widths.get(key);
  if (known !== undefined) return known;
  if (widths.size > MAX_WIDTHS) widths.clear();
  const width = context.measureText(text).width;
  widths.set(key, width);
  return width;
}
