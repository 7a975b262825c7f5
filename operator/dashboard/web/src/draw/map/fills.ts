/** Fills one rectangle of cells: colour, pattern and edges of a run. */

import type { RectBatch } from "../base/batch";
import type { Rect } from "../base/geometry";
import type { Patterns } from "../base/patterns";
import type { Theme } from "../base/theme";
import type { CellRun } from "../node/cells";
import { STATE_PATTERNS } from "./look";

/** Colours, patterns and pixel ratio of cells. */
export interface Brush {
  readonly theme: Theme;
  readonly patterns: Patterns;
  /** Device pixels for each CSS pixel. */
  readonly ratio: number;
}

/** Adds the cells of a run. `row` is the whole row, in device pixels; `columns` is the cells it has room for. */
export function addRun(batch: RectBatch, brush: Brush, run: CellRun, fill: string | undefined, row: Rect, columns: number): void {
  const edge = (cell: number): number => Math.round(row.x + (row.width * cell) / columns);
  const wide = row.width / columns / brush.ratio;
  const gap = wide < 3 ? 0 : Math.round((wide < 12 ? 1 : 2) * brush.ratio);
  if (gap === 0) {
    // Cells that are too narrow for gaps between them are one rectangle.
    const x = edge(run.first);
    addCell(batch, brush, run, fill, { x, y: row.y, width: edge(run.first + run.cells) - x, height: row.height }, false);
    return;
  }
  for (let cell = run.first; cell < run.first + run.cells; cell += 1) {
    const x = edge(cell);
    addCell(batch, brush, run, fill, { x, y: row.y, width: edge(cell + 1) - x - gap, height: row.height }, wide >= 5);
  }
}

function addCell(batch: RectBatch, brush: Brush, run: CellRun, fill: string | undefined, cell: Rect, hasEdge: boolean): void {
  const { x, y, width, height } = cell;
  if (fill !== undefined) batch.add("cell", fill, x, y, width, height);
  else if (hasEdge) addEmptyCell(batch, brush, cell);
  const pattern = STATE_PATTERNS[run.state];
  if (pattern === undefined) return;
  // A frame in the full colour keeps the cell's shape where the pattern is as light as the ground.
  const inset = hasEdge && fill !== undefined ? Math.round(brush.ratio) : 0;
  batch.add("pattern", brush.patterns[pattern], x + inset, y + inset, width - 2 * inset, height - 2 * inset);
}

function addEmptyCell(batch: RectBatch, brush: Brush, cell: Rect): void {
  const edge = Math.max(Math.round(brush.ratio), 1);
  batch.add("cell", brush.theme.freeLine, cell.x, cell.y, cell.width, cell.height);
  batch.add("cell", brush.theme.tile, cell.x + edge, cell.y + edge, cell.width - 2 * edge, cell.height - 2 * edge);
}
