/** Draws the foreseen number of free GPUs as a step curve above the rows. */

import { formatCount } from "../../app/text/format";
import { fitText } from "../base/fit-text";
import { curveAt, type Curve } from "./free-curve";
import { crisp } from "./paint-axis";
import type { TimelinePaint } from "./scene";
import { placeOf } from "./time-scale";

/** Room above and below the curve, in CSS pixels. */
const PADDING = { top: 14, bottom: 8 } as const;

/** Draws the curve and its labels. */
export function paintCurve(paint: TimelinePaint, curve: Curve): void {
  const { context, theme, frame } = paint;
  const { x, y, width, height } = frame.curve;
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  paintSteps(paint, curve);
  context.restore();
  context.fillStyle = theme.line;
  context.fillRect(0, crisp(y + height, paint.ratio) - 1 / paint.ratio, frame.rows.width, 1 / paint.ratio);
  paintLabels(paint, curve);
}

function paintSteps(paint: TimelinePaint, curve: Curve): void {
  const { context, theme, frame, scale } = paint;
  const { y, height } = frame.curve;
  const base = y + height - PADDING.bottom;
  const room = height - PADDING.top - PADDING.bottom;
  const levelOf = (gpus: number): number => base - (gpus / Math.max(curve.top, 1)) * room;
  const right = frame.curve.x + frame.curve.width;
  const from = Math.max(placeOf(scale, scale.now), frame.curve.x);
  if (from > right) return;
  const path = new Path2D();
  const line = new Path2D();
  let level = levelOf(curve.steps[0]?.gpus ?? 0);
  path.moveTo(from, base);
  path.lineTo(from, level);
  line.moveTo(from, level);
  let drawn = from;
  for (const step of curve.steps) {
    const x = Math.max(placeOf(scale, step.at), from);
    if (x > right) break;
    // Thousands of steps share a pixel: of those, the last one counts.
    if (x - drawn >= 0.5) {
      path.lineTo(x, level);
      line.lineTo(x, level);
      drawn = x;
    }
    level = levelOf(step.gpus);
    path.lineTo(drawn, level);
    line.lineTo(drawn, level);
  }
  path.lineTo(right, level);
  line.lineTo(right, level);
  path.lineTo(right, base);
  path.closePath();
  context.fillStyle = theme.boxes[1] ?? theme.tile;
  context.fill(path);
  context.strokeStyle = theme.fits;
  context.lineWidth = 1.5;
  context.stroke(line);
  context.fillStyle = theme.freeLine;
  context.fillRect(from, base, right - from, 1 / paint.ratio);
  context.fillRect(from, base - room, right - from, 1 / paint.ratio);
}

function paintLabels(paint: TimelinePaint, curve: Curve): void {
  const { context, theme, frame, scale } = paint;
  const { y, height } = frame.curve;
  const width = frame.labels - 16;
  const word = curve.kind === "free" ? "Free GPUs" : "GPUs held by jobs";
  const title = frame.labels < 160 ? word : `${word}, foreseen`;
  const now = curveAt(curve, scale.now) ?? 0;
  const of = curve.kind === "free" ? ` of ${formatCount(curve.top)}` : "";
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.font = `600 11px ${theme.font}`;
  context.fillStyle = theme.ink;
  context.fillText(fitText(context, title, width, "start"), 10, y + height / 2 - 9);
  context.font = `11px ${theme.font}`;
  context.fillStyle = theme.faint;
  context.fillText(fitText(context, `now ${formatCount(now)}${of}`, width, "start"), 10, y + height / 2 + 9);
}
