/** Finds what is at a point of the map. Pure. */

import type { NodeState } from "../../wire/cluster";
import { type Point, type Rect, contains, overlaps } from "../base/geometry";
import { cellRows, runAt, type CellRow, type CellRun } from "../node/cells";
import { tileIn, TILE, TILE_GAP, type MapLayout, type TileGrid } from "./layout";
import { rowRect, tileParts } from "./tile";

/** Returns the position of the node whose tile has a point, which is in map units. */
export function nodeAt(layout: MapLayout, at: Point): number | undefined {
  const grid = layout.grids.find((candidate) => contains(candidate, at));
  if (grid === undefined) return undefined;
  const index = indexIn(grid, at);
  return index === undefined ? undefined : grid.first + index;
}

/** Calls `visit` for each node whose tile touches a rectangle, which is in map units. */
export function visitNodesIn(layout: MapLayout, area: Rect, visit: (position: number, tile: Rect) => void): void {
  for (const grid of layout.grids) {
    if (overlaps(grid, area)) visitTilesIn(grid, area, visit);
  }
}

/** A cell of a node. */
export interface CellHit {
  readonly row: CellRow;
  readonly run: CellRun;
}

/**
 * Returns the cell at a point of a tile. The point is relative to the tile; lengths are in CSS pixels.
 * `columns` is the number of cells that the widest row has room for.
 */
export function cellAt(node: NodeState, at: Point, tile: { readonly width: number; readonly height: number }, columns: number): CellHit | undefined {
  const rows = cellRows(node);
  const parts = tileParts(tile.width, tile.height, Math.max(rows.length, 1));
  for (const [index, row] of rows.entries()) {
    const rect = rowRect(parts, index, rows.length);
    if (!contains(rect, at)) continue;
    const run = runAt(row, Math.floor(((at.x - rect.x) / rect.width) * Math.max(columns, row.cells)));
    return run === undefined ? undefined : { row, run };
  }
  return undefined;
}

function indexIn(grid: TileGrid, at: Point): number | undefined {
  const column = Math.floor((at.x - grid.x) / (TILE.width + TILE_GAP));
  const row = Math.floor((at.y - grid.y) / (TILE.height + TILE_GAP));
  const index = row * grid.columns + column;
  return index < grid.count && contains(tileIn(grid, index), at) ? index : undefined;
}

function visitTilesIn(grid: TileGrid, area: Rect, visit: (position: number, tile: Rect) => void): void {
  const pitch = { x: TILE.width + TILE_GAP, y: TILE.height + TILE_GAP };
  const rows = Math.ceil(grid.count / grid.columns);
  const firstRow = Math.max(Math.floor((area.y - grid.y) / pitch.y), 0);
  const lastRow = Math.min(Math.floor((area.y + area.height - grid.y) / pitch.y), rows - 1);
  const firstColumn = Math.max(Math.floor((area.x - grid.x) / pitch.x), 0);
  const lastColumn = Math.min(Math.floor((area.x + area.width - grid.x) / pitch.x), grid.columns - 1);
  for (let row = firstRow; row <= lastRow; row += 1) {
    for (let column = firstColumn; column <= lastColumn; column += 1) {
      const index = row * grid.columns + column;
      if (index < grid.count) visit(grid.first + index, tileIn(grid, index));
    }
  }
}
