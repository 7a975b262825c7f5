/** Places rectangles in rows from left to right, and chooses how long the rows are. Pure. */

import type { Point, Size } from "../base/geometry";

/** Rectangles in rows. */
export interface Flow extends Size {
  /** Upper left corner of each rectangle, in the order of the rectangles. */
  readonly places: readonly Point[];
}

/** A choice that costs at most this many times the best is kept, so that a map changes rarely. */
export const KEEP_FACTOR = 1.25;

/** Returns the number of columns of a grid of `count` equal tiles whose shape is nearest to `aspect`. */
export function chooseColumns(count: number, tile: Size, aspect: number, before?: number): number {
  if (count < 2) return 1;
  const costOf = (columns: number): number => {
    const rows = Math.ceil(count / columns);
    const cost = shapeCost({ width: columns * tile.width, height: rows * tile.height }, aspect);
    // Places without a tile are waste.
    return cost * Math.sqrt((columns * rows) / count);
  };
  return choose(columnsNear(count, tile, aspect), costOf, before !== undefined && before <= count ? before : undefined);
}

/** Places rectangles in rows of at most `width` units. A wider rectangle has a row of its own. */
export function flow(sizes: readonly Size[], width: number, gap: number): Flow {
  const places: Point[] = [];
  let [x, y, rowHeight, widest] = [0, 0, 0, 0];
  for (const size of sizes) {
    if (x > 0 && x + size.width > width) {
      [x, y, rowHeight] = [0, y + rowHeight + gap, 0];
    }
    places.push({ x, y });
    widest = Math.max(widest, x + size.width);
    rowHeight = Math.max(rowHeight, size.height);
    x += size.width + gap;
  }
  return { places, width: widest, height: y + rowHeight };
}

/**
 * Returns the length of rows, in map units, with which the flow is nearest to `aspect` (width by
 * height). `before` is the length of an earlier layout; it is kept while it is nearly as good.
 */
export function chooseWidth(sizes: readonly Size[], gap: number, aspect: number, before?: number): number {
  const widest = sizes.reduce((most, size) => Math.max(most, size.width), 0);
  const firstRows = new Set<number>();
  let sum = -gap;
  for (const size of sizes) {
    sum += size.width + gap;
    firstRows.add(Math.max(sum, widest));
  }
  const options = spread([...firstRows]);
  const cost = (width: number): number => shapeCost(flow(sizes, width, gap), aspect);
  return choose(options, cost, before !== undefined && before >= widest ? before : undefined);
}

/** Returns the inverse of the scale at which the rectangle fits into a window of that aspect with area 1. */
export function shapeCost(size: Size, aspect: number): number {
  return Math.max(size.width / Math.sqrt(aspect), size.height * Math.sqrt(aspect));
}

function choose(options: readonly number[], cost: (option: number) => number, before: number | undefined): number {
  let best = options[0] ?? 1;
  let least = Number.POSITIVE_INFINITY;
  for (const option of options) {
    const costs = cost(option);
    if (costs < least - 1e-9) [best, least] = [option, costs];
  }
  return before !== undefined && cost(before) <= least * KEEP_FACTOR ? before : best;
}

/** Returns the whole numbers around the ideal number of columns. */
function columnsNear(count: number, tile: Size, aspect: number): readonly number[] {
  const ideal = Math.sqrt((count * aspect * tile.height) / tile.width);
  const first = Math.min(Math.max(Math.floor(ideal * 0.6), 1), count);
  const last = Math.min(Math.max(Math.ceil(ideal * 1.6), first), count);
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

/** Keeps at most 96 options: all small ones, and the large ones in growing steps. */
function spread(options: readonly number[]): readonly number[] {
  const limit = 96;
  if (options.length <= limit) return options;
  const kept = new Set<number>();
  for (let step = 0; step < limit; step += 1) {
    const index = Math.floor((options.length - 1) * (step / (limit - 1)) ** 2);
    kept.add(options[Math.max(index, Math.min(step, options.length - 1))] as number);
  }
  return [...kept].sort((a, b) => a - b);
}
