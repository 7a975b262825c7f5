/** Draws the text of a tile: the name of the node, and the jobs on it. */

import type { NodeHold, NodeState } from "../../wire/cluster";
import { fitText, widthOf } from "../base/fit-text";
import { gangKey, gangTitle } from "../base/gang";
import type { Rect } from "../base/geometry";
import type { DrawContext } from "../base/patterns";
import { tileParts } from "../layout/tile";
import { cellRows, stateOf, type CellRun, type CellState } from "../node/cells";
import { startText } from "../node/describe";
import { stateWord } from "../node/devices";
import type { NodeFit } from "../node/fit";
import { nodeName } from "../node/order";
import type { Brush } from "./fills";
import { fillOf, STATE_PATTERNS, type LookContext } from "./look";

/** Size of the sample of a job's colour, in CSS pixels. */
const SWATCH = 8;

/** Colours, time and answer of the lens for the text of a tile. */
export interface TextPaint {
  readonly context: DrawContext;
  readonly brush: Brush;
  readonly look: LookContext;
  readonly now: Date;
  /** Answer of the fit lens. Absent: the lens is off. */
  readonly fit: NodeFit | undefined;
}

/** Place and size of text, in device pixels. */
interface TextPlace {
  readonly left: number;
  readonly width: number;
  /** Size of text. */
  readonly size: number;
}

interface Line {
  readonly text: string;
  readonly run: CellRun | undefined;
}

/** Draws the text of a tile. `tile` is in device pixels. Tiles that are too small for text stay as they are. */
export function paintText(node: NodeState, tile: Rect, paint: TextPaint): void {
  const { ratio } = paint.brush;
  const rows = cellRows(node);
  const parts = tileParts(tile.width / ratio, tile.height / ratio, Math.max(rows.length, 1));
  if (parts.name === 0) return;
  const place = { left: tile.x + Math.round(parts.cells.x * ratio), width: parts.cells.width * ratio, size: parts.textSize * ratio };
  paintName(node, paint, place, tile.y + (parts.name * ratio) / 2 + ratio);
  if (rows.length === 0) paintLine(paint, { text: "no devices", run: undefined }, place, tile.y + (parts.cells.y + 8) * ratio);
  const lines = parts.lines === 0 ? [] : linesOf(node, paint);
  cutLines(lines, parts.lines).forEach((line, index) => {
    paintLine(paint, line, place, tile.y + (parts.linesTop + (index + 0.5) * parts.lineHeight) * ratio);
  });
}

function paintName(node: NodeState, paint: TextPaint, place: TextPlace, middle: number): void {
  const { context, brush } = paint;
  const { left, width, size } = place;
  context.font = `600 ${size}px ${brush.theme.font}`;
  context.textBaseline = "middle";
  const word = statusWord(node, paint);
  // A sign beside the colour: no meaning by colour alone.
  const name = word?.isBad === true ? `× ${nodeName(node)}` : nodeName(node);
  const wordWidth = word === undefined ? 0 : widthOf(context, word.text) + 6 * brush.ratio;
  const hasRoom = word !== undefined && widthOf(context, name) + wordWidth <= width;
  context.fillStyle = word?.isBad === true ? brush.theme.bad : brush.theme.ink;
  context.fillText(fitText(context, name, width, word?.isBad === true ? "start" : "end"), left, middle);
  if (!hasRoom || word === undefined) return;
  context.fillStyle = word.isBad ? brush.theme.bad : brush.theme.faint;
  context.font = `${size}px ${brush.theme.font}`;
  context.fillText(word.text, left + width - widthOf(context, word.text), middle);
}

/** Returns the text beside the name: the answer of the lens, a reason, or the free devices. */
function statusWord(node: NodeState, paint: TextPaint): { readonly text: string; readonly isBad: boolean } | undefined {
  if (!node.schedulable) return { text: stateWord(node), isBad: true };
  if (paint.fit !== undefined) return { text: paint.fit.brief, isBad: false };
  const first = cellRows(node)[0];
  return first === undefined ? undefined : { text: `${first.counts.free}/${first.counts.total}`, isBad: false };
}

function linesOf(node: NodeState, paint: TextPaint): readonly Line[] {
  const plain = (text: string): Line => ({ text, run: undefined });
  const others = node.otherPods === 1 ? "1 other pod" : `${node.otherPods} other pods`;
  const held = cellRows(node).map((row) => row.counts.others).filter((count) => count > 0);
  return [
    ...(paint.fit?.kind === "short" || (paint.fit?.kind === "off" && node.schedulable) ? [plain(paint.fit.why)] : []),
    ...(node.schedulable ? [] : (node.reasons ?? []).map((reason) => plain(reason.message))),
    ...(node.jobs ?? []).map((hold) => holdLine(hold, stateOf(hold))),
    ...(held.length > 0 ? [{ text: `${held.join("+")} ${others}`, run: sampleRun("other", undefined) }] : []),
    ...(node.keptFor ?? []).map((hold) => holdLine(hold, "kept")),
    ...(node.reservedFor ?? []).map((hold) => plain(`reserved: ${gangTitle(hold)}${startText(hold, paint.now)}`)),
  ];
}

/** Returns the line of a job: its devices, its name, and its state unless it runs. */
function holdLine(hold: NodeHold, state: CellState): Line {
  const devices = (hold.devices ?? []).map((entry) => entry.amount).join("+");
  const suffix = state === "running" ? "" : ` (${state})`;
  if (devices === "") return { text: `${gangTitle(hold)}${suffix}, no devices`, run: undefined };
  return { text: `${devices} ${gangTitle(hold)}${suffix}`, run: sampleRun(state, gangKey(hold)) };
}

function sampleRun(state: CellState, gang: string | undefined): CellRun {
  return { state, gang, first: 0, cells: 1, devices: 1 };
}

/** Keeps as many lines as fit, and says how many more there are: in the last line, or behind the only one. */
function cutLines(lines: readonly Line[], room: number): readonly Line[] {
  const [first] = lines;
  if (lines.length <= room || first === undefined) return lines;
  if (room === 1) return [{ text: `+${lines.length - 1}: ${first.text}`, run: first.run }];
  return [...lines.slice(0, room - 1), { text: `${lines.length - room + 1} more`, run: undefined }];
}

function paintLine(paint: TextPaint, line: Line, place: TextPlace, middle: number): void {
  const { context, brush } = paint;
  const size = Math.round(SWATCH * brush.ratio);
  const indent = line.run === undefined ? 0 : size + Math.round(4 * brush.ratio);
  if (line.run !== undefined) paintSwatch(paint, line.run, place.left, Math.round(middle - size / 2), size);
  context.font = `${place.size}px ${brush.theme.font}`;
  context.textBaseline = "middle";
  context.fillStyle = line.run === undefined ? brush.theme.faint : brush.theme.ink;
  context.fillText(fitText(context, line.text, place.width - indent, "start"), place.left + indent, middle);
}

function paintSwatch(paint: TextPaint, run: CellRun, x: number, y: number, size: number): void {
  const { context, brush } = paint;
  context.fillStyle = fillOf(run, paint.look, brush.theme) ?? brush.theme.tile;
  context.fillRect(x, y, size, size);
  const pattern = STATE_PATTERNS[run.state];
  if (pattern === undefined) return;
  context.fillStyle = brush.patterns[pattern];
  context.fillRect(x + 1, y + 1, size - 2, size - 2);
}
