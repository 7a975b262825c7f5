/** Draws the rows of the timeline: headings of queues, and bars of jobs with their labels. */

import { formatCount } from "../../app/text/format";
import { fitText } from "../base/fit-text";
import { colourNumber, gangOfKey, gangTitle } from "../base/gang";
import { spansOf } from "./job-spans";
import { pastRun } from "./past-runs";
import { paintBars } from "./paint-bars";
import { GROUP_HEIGHT, heightOf, JOB_HEIGHT, MAX_ENDED, rowAt, type GroupRow, type JobRow } from "./rows";
import type { TimelinePaint, TimelineScene } from "./scene";

/** Least height of the thumb of the scroll bar, in CSS pixels. */
const LEAST_THUMB = 24;

/** Draws the rows that are in view. */
export function paintRows(paint: TimelinePaint, scene: TimelineScene): void {
  const { context, frame } = paint;
  const { x, y, width, height } = frame.rows;
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  const first = rowAt(scene.rows, scene.scroll) ?? 0;
  for (let index = first; index < scene.rows.rows.length; index += 1) {
    const top = y + (scene.rows.tops[index] ?? 0) - scene.scroll;
    if (top >= y + height) break;
    const row = scene.rows.rows[index];
    if (row?.kind === "queue") paintGroup(paint, row, top);
    else if (row?.kind === "job") paintJob(paint, scene, row, index, top);
  }
  context.restore();
  paintScrollBar(paint, scene);
}

function paintGroup(paint: TimelinePaint, row: GroupRow, top: number): void {
  const { context, theme, frame } = paint;
  const middle = top + GROUP_HEIGHT / 2;
  context.fillStyle = theme.boxes[1] ?? theme.ground;
  context.fillRect(0, top, frame.rows.width, GROUP_HEIGHT);
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.font = `600 12px ${theme.font}`;
  context.fillStyle = theme.ink;
  const name = fitText(context, row.queue, frame.labels - 20, "start");
  context.fillText(name, 10, middle);
  const after = Math.max(10 + context.measureText(name).width + 14, frame.labels + 6);
  context.font = `11px ${theme.font}`;
  context.fillStyle = theme.faint;
  const counts = `${formatCount(row.placed)} placed, hold ${formatCount(row.gpus)} GPUs; ${formatCount(row.pending)} pending${endedText(row.ended)}`;
  context.fillText(fitText(context, counts, frame.rows.width - after - 12, "start"), after, middle);
}

function endedText(ended: number): string {
  if (ended === 0) return "";
  return `; ${formatCount(ended)} ended${ended > MAX_ENDED ? `, the last ${MAX_ENDED} are shown` : ""}`;
}

function paintJob(paint: TimelinePaint, scene: TimelineScene, row: JobRow, index: number, top: number): void {
  const { context, theme, frame } = paint;
  if (index === scene.hover || index === scene.focus) {
    context.fillStyle = theme.boxes[0] ?? theme.ground;
    context.fillRect(0, top, frame.rows.width, JOB_HEIGHT);
  }
  context.save();
  context.beginPath();
  context.rect(frame.bars.x, top, frame.bars.width, JOB_HEIGHT);
  context.clip();
  paintBars(paint, spansOf(row.job, scene.now, row.past.map(pastRun)), theme.gangs[colourNumber(row.key)] ?? theme.unknown, top);
  context.restore();
  paintLabel(paint, row, top);
  if (index !== scene.focus) return;
  context.strokeStyle = theme.focus;
  context.lineWidth = 2;
  context.strokeRect(1, top + 1, frame.rows.width - 2, JOB_HEIGHT - 2);
}

function paintLabel(paint: TimelinePaint, row: JobRow, top: number): void {
  const { context, theme, frame } = paint;
  const middle = top + JOB_HEIGHT / 2 + 0.5;
  const gpus = formatCount(row.gpus);
  context.textBaseline = "middle";
  context.font = `11px ${theme.font}`;
  context.fillStyle = theme.faint;
  context.textAlign = "right";
  context.fillText(gpus, frame.labels - 10, middle);
  context.textAlign = "left";
  context.fillStyle = row.job === undefined ? theme.faint : theme.ink;
  const room = frame.labels - 32 - context.measureText(gpus).width;
  const title = gangTitle(gangOfKey(row.key));
  context.fillText(fitText(context, title, room, "end"), 14, middle);
}

function paintScrollBar(paint: TimelinePaint, scene: TimelineScene): void {
  const { context, theme, frame } = paint;
  const [all, room] = [heightOf(scene.rows), frame.rows.height];
  if (all <= room) return;
  const length = Math.max((room / all) * room, LEAST_THUMB);
  const top = frame.rows.y + (scene.scroll / (all - room)) * (room - length);
  context.fillStyle = theme.freeLine;
  context.fillRect(frame.rows.width - 6, top, 5, length);
}
