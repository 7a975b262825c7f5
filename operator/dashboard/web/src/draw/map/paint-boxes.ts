/** Draws the boxes of topology domains and their labels. */

import { fitText } from "../base/fit-text";
import { type Rect, overlaps } from "../base/geometry";
import type { DrawContext } from "../base/patterns";
import type { DomainBox } from "../layout/layout";
import type { Brush } from "./fills";
import { toWindow, type MapView } from "./zoom";

/** Sizes of labels in CSS pixels: least and greatest size of text, and the least strip that has text. */
const LABEL = { least: 10, most: 14, strip: 11 } as const;

/** Draws the boxes that touch `area`, which is in map units. `view` is in device pixels. */
export function paintBoxes(context: DrawContext, brush: Brush, boxes: readonly DomainBox[], view: MapView, area: Rect): void {
  const visible = boxes.filter((box) => overlaps(box, area));
  for (const box of visible) fillBox(context, brush, box, view);
  for (const box of visible) drawLabel(context, brush, box, view);
}

/** Returns a rectangle of the map in device pixels, with whole edges. `view` is in device pixels. */
export function deviceRect(rect: Rect, view: MapView): Rect {
  const from = toWindow(view, rect);
  const to = toWindow(view, { x: rect.x + rect.width, y: rect.y + rect.height });
  const [x, y] = [Math.round(from.x), Math.round(from.y)];
  return { x, y, width: Math.max(Math.round(to.x) - x, 1), height: Math.max(Math.round(to.y) - y, 1) };
}

function fillBox(context: DrawContext, brush: Brush, box: DomainBox, view: MapView): void {
  const { theme } = brush;
  const rect = deviceRect(box, view);
  const edge = Math.max(Math.round(brush.ratio), 1);
  context.fillStyle = theme.boxLine;
  context.fillRect(rect.x, rect.y, rect.width, rect.height);
  context.fillStyle = theme.boxes[Math.min(box.depth, theme.boxes.length - 1)] ?? theme.ground;
  context.fillRect(rect.x + edge, rect.y + edge, rect.width - 2 * edge, rect.height - 2 * edge);
}

function drawLabel(context: DrawContext, brush: Brush, box: DomainBox, view: MapView): void {
  const strip = (box.header * view.scale) / brush.ratio;
  if (strip < LABEL.strip || box.label === "") return;
  const size = Math.min(Math.max(strip * 0.72, LABEL.least), LABEL.most);
  const rect = deviceRect(box, view);
  const left = rect.x + Math.round(Math.min(6, 2 + strip / 6) * brush.ratio);
  const width = rect.width - 2 * (left - rect.x);
  context.font = `600 ${Math.round(size * brush.ratio)}px ${brush.theme.font}`;
  context.textBaseline = "middle";
  context.fillStyle = box.depth === 0 ? brush.theme.ink : brush.theme.faint;
  const text = fitText(context, box.label, width, "end");
  context.fillText(text, left, rect.y + Math.round((box.header * view.scale) / 2));
}
