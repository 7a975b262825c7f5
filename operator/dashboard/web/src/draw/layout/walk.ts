/** Walks from node to node with the arrow keys. Pure. */

import type { Rect } from "../base/geometry";
import { gridOf, tileOf, type MapLayout } from "./layout";

/** Direction of an arrow key. */
export type Direction = "left" | "right" | "up" | "down";

/**
 * Returns the position of the next node in a direction, or of the same node at the edge of the map.
 * Left and right follow the order of nodes, also from one box to the next; up and down look for the
 * nearest tile.
 */
export function walk(layout: MapLayout, position: number, direction: Direction): number {
  switch (direction) {
    case "left":
      return Math.max(position - 1, 0);
    case "right":
      return Math.min(position + 1, layout.names.length - 1);
    case "up":
    case "down":
      return walkVertically(layout, position, direction === "up" ? -1 : 1);
  }
}

/** Returns the position of the first node of the next or previous grid. */
export function walkGrid(layout: MapLayout, position: number, step: 1 | -1): number {
  const grid = gridOf(layout, position);
  const index = grid === undefined ? -1 : layout.grids.indexOf(grid);
  return layout.grids[index + step]?.first ?? (step < 0 ? 0 : layout.names.length - 1);
}

function walkVertically(layout: MapLayout, position: number, sign: 1 | -1): number {
  const grid = gridOf(layout, position);
  const from = tileOf(layout, position);
  if (grid === undefined || from === undefined) return position;
  const inside = position + sign * grid.columns;
  if (inside >= grid.first && inside < grid.first + grid.count) return inside;
  return nearestBeyond(layout, from, sign) ?? position;
}

/** Returns the nearest node above or below a tile. Distance across counts three times. */
function nearestBeyond(layout: MapLayout, from: Rect, sign: 1 | -1): number | undefined {
  let best: number | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const grid of layout.grids) {
    const isBeyond = sign > 0 ? grid.y + grid.height > from.y + from.height : grid.y < from.y;
    if (!isBeyond) continue;
    for (let index = 0; index < grid.count; index += 1) {
      const position = grid.first + index;
      const tile = tileOf(layout, position) as Rect;
      const down = (tile.y - from.y) * sign;
      if (down <= 0) continue;
      const distance = down + 3 * Math.abs(tile.x - from.x);
      if (distance < least) [best, least] = [position, distance];
    }
  }
  return best;
}
