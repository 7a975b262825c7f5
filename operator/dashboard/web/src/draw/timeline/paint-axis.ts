/** Draws the axis of time, its lines through the rows, and the line for now. */

import type { TimelinePaint } from "./scene";
import { placeOf, type Tick } from "./time-scale";

/** Room of the label "now", in CSS pixels. */
const NOW_WIDTH = 36;

/** Draws the marks of the axis and a line below each. */
export function paintAxis(paint: TimelinePaint, ticks: readonly Tick[]): void {
  const { context, theme, frame, scale } = paint;
  const bottom = frame.rows.y + frame.rows.height;
  const now = placeOf(scale, scale.now);
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const tick of ticks) {
    const x = crisp(placeOf(scale, tick.at), paint.ratio);
    context.fillStyle = tick.isDay ? theme.line : theme.boxLine;
    context.fillRect(x, tick.isDay ? 4 : frame.axis.height - 5, 1 / paint.ratio, bottom);
    context.fillStyle = tick.isDay ? theme.ink : theme.faint;
    context.font = `${tick.isDay ? 600 : 400} 11px ${theme.font}`;
    const width = context.measureText(tick.label).width;
    const isBelowNow = x + 4 < now + NOW_WIDTH && x + 4 + width > now - 4;
    if (!isBelowNow && x + 4 + width <= frame.axis.x + frame.axis.width) context.fillText(tick.label, x + 4, frame.axis.height / 2);
  }
}

/** Draws the line for now, over everything but the labels of rows. */
export function paintNow(paint: TimelinePaint, height: number): void {
  const { context, theme, frame, scale } = paint;
  const x = crisp(placeOf(scale, scale.now), paint.ratio);
  if (x < frame.bars.x || x > frame.bars.x + frame.bars.width) return;
  context.fillStyle = theme.focus;
  context.fillRect(x - 0.75, 0, 1.5, height);
  context.font = `600 11px ${theme.font}`;
  const width = context.measureText("now").width + 8;
  const left = Math.min(x, frame.bars.x + frame.bars.width - width);
  context.fillRect(left, 0, width, 16);
  context.fillStyle = theme.ground;
  context.textBaseline = "middle";
  context.fillText("now", left + 4, 8.5);
}

/** Returns a place at an edge of device pixels, so that a thin line is sharp. */
export function crisp(place: number, ratio: number): number {
  return Math.round(place * ratio) / ratio;
}
