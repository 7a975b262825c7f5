/** Draws the stretches of one job. */

import type { JobSpans, Span } from "./job-spans";
import { crisp } from "./paint-axis";
import { paintRun } from "./paint-run";
import { JOB_HEIGHT } from "./rows";
import type { TimelinePaint } from "./scene";
import { placeOf } from "./time-scale";

/** Distance between a bar and the edges of its row, in CSS pixels. */
const MARGIN = 4;

/** Length of a bar whose end is unknown, beyond its beginning, in CSS pixels. */
const OPEN_LENGTH = 56;

/** Draws the stretches of a job. `top` is the upper edge of its row. */
export function paintBars(paint: TimelinePaint, spans: JobSpans, colour: string, top: number): void {
  const { context, theme, patterns } = paint;
  const [y, height] = [top + MARGIN, JOB_HEIGHT - 2 * MARGIN];
  const middle = top + JOB_HEIGHT / 2;
  if (spans.wait !== undefined) fillSpan(paint, spans.wait, middle - 1, 2, theme.faint);
  // Between its attempts the job waited, so that their bars cover its line.
  for (const run of spans.past) paintRun(paint, run, colour, y, height);
  if (spans.foreseenWait !== undefined) dotSpan(paint, spans.foreseenWait, middle, theme.faint);
  if (spans.hatched !== undefined) {
    const tail = boundsOf(paint, spans.hatched);
    context.fillStyle = colour;
    context.fillRect(tail.left, y, tail.width, height);
    context.fillStyle = patterns.hatch;
    context.fillRect(tail.left, y, tail.width, height);
    if (spans.hatched.to === undefined) paintOpenEnd(paint, tail.left + tail.width, y, height);
    else frameRect(paint, tail.left, y, tail.width, height, colour);
  }
  if (spans.solid !== undefined) fillSpan(paint, spans.solid, y, height, colour);
  if (spans.outline !== undefined) {
    const outline = boundsOf(paint, spans.outline);
    if (spans.outline.to === undefined) openFrame(paint, outline.left, y, outline.width, height, colour);
    else frameRect(paint, outline.left, y, outline.width, height, colour, 1.5);
  }
  if (spans.isOverdue) paintNote(paint, "overdue", middle, theme.bad);
  if (spans.isNever) paintNote(paint, "never as it is", middle, theme.bad);
  else if (spans.solid === undefined && spans.outline === undefined && !spans.isGone) paintNote(paint, "no known start", middle, theme.faint);
}

function boundsOf(paint: TimelinePaint, span: Span): { readonly left: number; readonly width: number } {
  const { frame, scale, ratio } = paint;
  const edge = frame.bars.x + frame.bars.width;
  const from = Math.min(Math.max(placeOf(scale, span.from), frame.bars.x - 10), edge + 10);
  const end = span.to === undefined ? placeOf(scale, span.from) + OPEN_LENGTH : placeOf(scale, span.to);
  const left = crisp(from, ratio);
  // A short stretch is still visible.
  return { left, width: Math.max(crisp(Math.min(end, edge + 10), ratio) - left, 2) };
}

function fillSpan(paint: TimelinePaint, span: Span, y: number, height: number, colour: string): void {
  const { left, width } = boundsOf(paint, span);
  paint.context.fillStyle = colour;
  paint.context.fillRect(left, y, width, height);
}

function dotSpan(paint: TimelinePaint, span: Span, middle: number, colour: string): void {
  const { left, width } = boundsOf(paint, span);
  const { context } = paint;
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.setLineDash([2, 4]);
  context.beginPath();
  context.moveTo(left, middle);
  context.lineTo(left + width, middle);
  context.stroke();
  context.setLineDash([]);
}

function frameRect(paint: TimelinePaint, x: number, y: number, width: number, height: number, colour: string, line = 1): void {
  const { context } = paint;
  context.strokeStyle = colour;
  context.lineWidth = line;
  context.strokeRect(x + line / 2, y + line / 2, Math.max(width - line, 1), height - line);
}

/** A frame without a right edge: the end is unknown. */
function openFrame(paint: TimelinePaint, x: number, y: number, width: number, height: number, colour: string): void {
  const { context } = paint;
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x + width, y + 0.75);
  context.lineTo(x + 0.75, y + 0.75);
  context.lineTo(x + 0.75, y + height - 0.75);
  context.lineTo(x + width, y + height - 0.75);
  context.stroke();
}

/** A torn edge: the bar has no known end. */
function paintOpenEnd(paint: TimelinePaint, right: number, y: number, height: number): void {
  const { context, theme } = paint;
  const teeth = 3;
  context.fillStyle = theme.ground;
  context.beginPath();
  context.moveTo(right + 2, y - 1);
  for (let tooth = 0; tooth < teeth; tooth += 1) {
    context.lineTo(right, y - 1 + ((height + 2) * tooth) / teeth);
    context.lineTo(right - 6, y - 1 + ((height + 2) * (tooth + 0.5)) / teeth);
  }
  context.lineTo(right, y + height + 1);
  context.lineTo(right + 2, y + height + 1);
  context.fill();
}

function paintNote(paint: TimelinePaint, text: string, middle: number, colour: string): void {
  const { context, theme, frame, scale } = paint;
  const x = placeOf(scale, scale.now) + 7;
  if (x < frame.bars.x || x > frame.bars.x + frame.bars.width) return;
  context.font = `11px ${theme.font}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.fillStyle = colour;
  context.fillText(text, x, middle + 0.5);
}
