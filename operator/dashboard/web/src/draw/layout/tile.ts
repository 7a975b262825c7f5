/** Parts of the tile of a node at each zoom: a fill bar, cells, a name, lines for jobs. Pure. */

import type { Rect } from "../base/geometry";


/** Content of a tile. Each step adds to the steps before it. */
export type Detail = "bar" | "cells" | "names" | "jobs";

/** Parts of a tile, relative to its upper left corner. Lengths are in CSS pixels. */
export interface TileParts {
  readonly detail: Detail;
  /** Height of the strip with the name; 0 without. */
  readonly name: number;
  /** The rows of cells. */
  readonly cells: Rect;
  /** Distance from the upper edge to the lines for jobs. */
  readonly linesTop: number;
  /** Number of lines for jobs that fit. */
  readonly lines: number;
  /** Height of a line for a job, and size of text. */
  readonly lineHeight: number;
  readonly textSize: number;
}

/** Width from which text is larger. */
const LARGE_FROM = 250;

/** Distance between two rows of cells. */
export const ROW_GAP = 2;

/** Least width of a tile that shows single cells, a name, and jobs. */
const CELLS_FROM = 26;
const NAMES_FROM = 76;
const JOBS_FROM = 112;

/** Returns what a tile of a width shows. */
export function detailFor(width: number): Detail {
  if (width < CELLS_FROM) return "bar";
  if (width < NAMES_FROM) return "cells";
  return width < JOBS_FROM ? "names" : "jobs";
}

/** Returns the parts of a tile with a number of rows of cells. */
export function tileParts(width: number, height: number, rows: number): TileParts {
  const detail = detailFor(width);
  const [lineHeight, textSize] = width < LARGE_FROM ? [14, 11] : [18, 13];
  if (detail === "bar") {
    return { detail, name: 0, cells: { x: 0, y: 0, width, height }, linesTop: height, lines: 0, lineHeight, textSize };
  }
  const padding = Math.min(Math.max(width / 32, 1.5), 6);
  const name = detail === "cells" ? 0 : Math.min(Math.max(height * 0.34, 13), lineHeight + 6);
  const top = name === 0 ? padding : name + padding / 2;
  const below = height - top - padding;
  const least = Math.min(12 * rows + ROW_GAP * (rows - 1), below);
  const lines = detail === "jobs" ? Math.max(Math.floor((below - Math.max(least, below * 0.3) - 3) / lineHeight), 0) : 0;
  const cellHeight = Math.min(below - lines * lineHeight - (lines > 0 ? 4 : 0), lines > 0 ? 40 * rows : below);
  const cells = { x: padding, y: top, width: width - 2 * padding, height: cellHeight };
  return { detail, name, cells, linesTop: top + cellHeight + 4, lines, lineHeight, textSize };
}

/** Returns the number of cells that a full row has room for: the least of 1, 2, 4, 8, 16 that is enough. */
export function columnsFor(cells: number): number {
  return 2 ** Math.ceil(Math.log2(Math.min(Math.max(cells, 1), 16)));
}

/** Returns the rectangle of a row of cells within the cells of a tile. */
export function rowRect(parts: TileParts, row: number, rows: number): Rect {
  const gap = parts.detail === "bar" ? 0 : ROW_GAP;
  const height = (parts.cells.height - gap * (rows - 1)) / rows;
  return { ...parts.cells, y: parts.cells.y + row * (height + gap), height };
}
