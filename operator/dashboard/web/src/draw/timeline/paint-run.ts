/** Draws an ended attempt: a pale bar, a tick for its last checkpoint, and a mark for how it ended. */

import type { EndKind } from "../../app/job/ended-attempts";
import { crisp } from "./paint-axis";
import type { PastRun } from "./past-runs";
import type { TimelinePaint } from "./scene";
import { placeOf } from "./time-scale";

/** Distance between a pale bar and a solid one, above and below, in CSS pixels. */
const INSET = 3;

/** Half the height of a mark, in CSS pixels. */
const REACH = 4;

/** Draws an attempt. `y` and `height` are those of a solid bar. */
export function paintRun(paint: TimelinePaint, run: PastRun, colour: string, y: number, height: number): void {
  const { context, theme, frame, scale, ratio } = paint;
  const edge = frame.bars.x + frame.bars.width;
  const left = crisp(Math.min(Math.max(placeOf(scale, run.from), frame.bars.x - 10), edge + 10), ratio);
  const end = crisp(Math.min(placeOf(scale, run.to), edge + 10), ratio);
  if (end < frame.bars.x - 10 || left > edge) return;
  // A short attempt is still visible.
  const width = Math.max(end - left, 2);
  const [top, size] = [y + INSET, height - 2 * INSET];
  context.fillStyle = theme.ground;
  context.fillRect(left, top, width, size);
  context.globalAlpha = 0.45;
  context.fillStyle = colour;
  context.fillRect(left, top, width, size);
  context.globalAlpha = 1;
  if (run.checkpoint !== undefined) {
    context.fillStyle = theme.ink;
    context.fillRect(crisp(placeOf(scale, run.checkpoint), ratio) - 0.75, top - 2, 1.5, size + 4);
  }
  paintMark(paint, run.end, left + width, y + height / 2);
}

/** The shapes alone tell the ends apart. `TimelineLegend` has the same ones. */
function paintMark({ context, theme }: TimelinePaint, end: EndKind, x: number, y: number): void {
  context.strokeStyle = end === "failed" ? theme.bad : theme.ink;
  context.lineWidth = end === "failed" ? 2 : 1.5;
  context.beginPath();
  switch (end) {
    case "complete":
      return;
    case "failed":
      context.moveTo(x - REACH, y - REACH);
      context.lineTo(x + REACH, y + REACH);
      context.moveTo(x - REACH, y + REACH);
      context.lineTo(x + REACH, y - REACH);
      break;
    case "preempted":
      context.moveTo(x + 1, y - REACH - 1);
      context.lineTo(x - REACH - 1, y);
      context.lineTo(x + 1, y + REACH + 1);
      context.fillStyle = theme.ground;
      context.fill();
      break;
    case "suspended":
      context.moveTo(x + 2, y - REACH);
      context.lineTo(x + 2, y + REACH);
      context.moveTo(x + 5, y - REACH);
      context.lineTo(x + 5, y + REACH);
      break;
    case "deleted":
      context.arc(x + REACH, y, REACH - 1, 0, 2 * Math.PI);
      break;
    case "other":
      context.moveTo(x, y - REACH - 2);
      context.lineTo(x, y + REACH + 2);
      break;
  }
  context.stroke();
}
