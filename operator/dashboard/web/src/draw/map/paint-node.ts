/** Draws the tile of one node, without its text: frame, cells, brackets and marks. */

import type { NodeState } from "../../wire/cluster";
import type { RectBatch } from "../base/batch";
import type { Rect } from "../base/geometry";
import { rowRect, tileParts, type TileParts } from "../layout/tile";
import { cellRows, type Bracket, type CellRow } from "../node/cells";
import { isPartlyFree } from "../node/devices";
import type { FitKind } from "../node/fit";
import { addRun, type Brush } from "./fills";
import { fillOf, type LookContext } from "./look";

/** Batch, colours and options of a tile. */
export interface NodePaint {
  readonly batch: RectBatch;
  readonly brush: Brush;
  readonly look: LookContext;
  /** Cells that the widest row of the map has room for. */
  readonly columns: number;
  /** Answer of the fit lens. Absent: the lens is off. */
  readonly fit: FitKind | undefined;
  /** True if only the cells of `gang` are drawn, over a veil. */
  readonly gang: ReadonlySet<string> | undefined;
}

/** Adds a tile to the batch. `tile` is in device pixels; its edges are whole numbers. */
export function paintNode(node: NodeState, tile: Rect, paint: NodePaint): void {
  const { ratio } = paint.brush;
  const rows = cellRows(node);
  const parts = tileParts(tile.width / ratio, tile.height / ratio, Math.max(rows.length, 1));
  const frame = frameOf(node, parts, paint);
  addFrame(paint, tile, frame);
  const inset = parts.detail === "bar" ? frame.width : 0;
  rows.forEach((row, index) => {
    const rect = deviceRect(rowRect(parts, index, rows.length), tile, ratio, inset);
    addRow(paint, row, rect, parts);
  });
  // Closer, the name says it, and the cells are what matters.
  if (!node.schedulable && (parts.detail === "bar" || parts.detail === "cells")) addCross(paint, tile);
  if (paint.fit === "off" && paint.gang === undefined) addVeil(paint, tile);
}

interface Frame {
  readonly colour: string | undefined;
  /** Width in device pixels. */
  readonly width: number;
}

/** A broken node, a match of the lens, and a node with some free devices have frames of their own. */
function frameOf(node: NodeState, parts: TileParts, paint: NodePaint): Frame {
  const { theme, ratio } = paint.brush;
  const thin = Math.max(Math.round(ratio), 1);
  const thick = Math.max(Math.round((parts.detail === "bar" ? 1.5 : 2) * ratio), 1);
  if (paint.fit === "fits" || paint.fit === "short") return { colour: theme.fits, width: thick };
  if (!node.schedulable) return { colour: theme.bad, width: thin };
  if (isPartlyFree(node)) return { colour: theme.partly, width: thick };
  return { colour: theme.line, width: thin };
}

function addFrame(paint: NodePaint, tile: Rect, frame: Frame): void {
  const { batch, brush } = paint;
  if (frame.colour !== undefined) batch.add("frame", frame.colour, tile.x, tile.y, tile.width, tile.height);
  const { width } = frame;
  batch.add("tile", brush.theme.tile, tile.x + width, tile.y + width, tile.width - 2 * width, tile.height - 2 * width);
  if (paint.fit !== "short") return;
  // A broken frame: the node is free only until a reservation begins.
  const dash = Math.max(Math.round(tile.width / 9), 2);
  for (let x = tile.x + dash; x < tile.x + tile.width - dash; x += 2 * dash) {
    batch.add("tile", brush.theme.tile, x, tile.y, dash, tile.height);
  }
}

function addRow(paint: NodePaint, row: CellRow, rect: Rect, parts: TileParts): void {
  const columns = Math.max(paint.columns, row.cells);
  const full = parts.detail === "bar" ? row.cells : columns;
  let before: string | undefined;
  for (const run of row.runs) {
    const fill = fillOf(run, paint.look, paint.brush.theme);
    const isDimmed = paint.gang !== undefined && (run.gang === undefined || !paint.gang.has(run.gang));
    if (!isDimmed) addRun(paint.batch, paint.brush, run, fill, rect, full);
    if (!isDimmed && fill !== undefined && fill === before) addDivider(paint, rect, run.first, full);
    before = fill;
  }
  for (const bracket of row.brackets) {
    if (paint.gang === undefined || paint.gang.has(bracket.gang)) addBracket(paint, bracket, rect, full);
  }
}

/** Separates two gangs whose colours are the same. */
function addDivider(paint: NodePaint, row: Rect, cell: number, columns: number): void {
  const width = Math.max(Math.round(paint.brush.ratio), 1);
  const x = Math.round(row.x + (row.width * cell) / columns) - width;
  const extra = row.width / columns < 4 * width ? 0 : width;
  paint.batch.add("mark", paint.brush.theme.tile, x - extra, row.y, width + 2 * extra, row.height);
  if (extra > 0) paint.batch.add("mark", paint.brush.theme.ink, x, row.y, width, row.height);
}

/** Draws a bracket along the lower edge of reserved cells, on a narrow ground so that it stands out. */
function addBracket(paint: NodePaint, bracket: Bracket, row: Rect, columns: number): void {
  const { batch, brush } = paint;
  const thick = Math.max(Math.round(Math.min(2, row.height / brush.ratio / 4) * brush.ratio), 1);
  const left = Math.round(row.x + (row.width * bracket.first) / columns);
  const right = Math.round(row.x + (row.width * (bracket.first + bracket.cells)) / columns) - 1;
  const bottom = row.y + row.height;
  const height = Math.min(Math.round(row.height * 0.45), Math.round(9 * brush.ratio));
  const rects: readonly Rect[] = [
    { x: left, y: bottom - thick, width: right - left, height: thick },
    { x: left, y: bottom - height, width: thick, height },
    { x: right - thick, y: bottom - height, width: thick, height },
  ];
  const halo = Math.max(Math.ceil(thick / 2), 1);
  for (const rect of rects) {
    const top = Math.max(rect.y - halo, row.y);
    batch.add("halo", brush.theme.tile, rect.x - (rect.x > left ? halo : 0), top, rect.width + halo, rect.y + rect.height - top);
  }
  for (const rect of rects) batch.add("mark", brush.theme.reserved, rect.x, rect.y, rect.width, rect.height);
}

/**
 * Draws both diagonals of a tile as short steps: rectangles are what the batch draws fast. A halo in
 * the colour of empty tiles makes them visible on any fill.
 */
function addCross(paint: NodePaint, tile: Rect): void {
  const { batch, brush } = paint;
  const thick = Math.max(Math.round(1.25 * brush.ratio), 1);
  const halo = tile.height > 10 * brush.ratio ? thick : 0;
  const steps = Math.max(Math.round(tile.height / thick), 1);
  const width = Math.max(Math.ceil(tile.width / steps), thick);
  const end = tile.x + tile.width;
  for (let step = 0; step < steps; step += 1) {
    const y = tile.y + step * thick;
    const height = Math.min(thick, tile.y + tile.height - y);
    const shift = Math.min(Math.round(((tile.width - width) * step) / Math.max(steps - 1, 1)), tile.width - width);
    for (const x of [tile.x + shift, end - width - shift]) {
      const left = Math.max(x - halo, tile.x);
      if (halo > 0) batch.add("halo", brush.theme.tile, left, y, Math.min(x + width + halo, end) - left, height);
      batch.add("mark", brush.theme.bad, x, y, width, height);
    }
  }
}

function addVeil(paint: NodePaint, tile: Rect): void {
  paint.batch.add("veil", paint.brush.theme.veil, tile.x, tile.y, tile.width, tile.height);
}

function deviceRect(rect: Rect, tile: Rect, ratio: number, inset: number): Rect {
  const x = tile.x + Math.round(rect.x * ratio) + inset;
  const y = tile.y + Math.round(rect.y * ratio) + inset;
  const right = tile.x + Math.round((rect.x + rect.width) * ratio) - inset;
  const bottom = tile.y + Math.round((rect.y + rect.height) * ratio) - inset;
  return { x, y, width: Math.max(right - x, 1), height: Math.max(bottom - y, 1) };
}
