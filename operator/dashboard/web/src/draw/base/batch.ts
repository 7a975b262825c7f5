/** Collects rectangles by fill and layer, so that each fill is set once for thousands of rectangles. */

import type { DrawContext } from "./patterns";

type Fill = string | CanvasPattern;

/** Layers, from the lowest. Tiles do not overlap, so one batch may draw many tiles layer by layer. */
export const LAYERS = ["frame", "tile", "cell", "pattern", "halo", "mark", "veil"] as const;

/** Layer of a rectangle. */
export type Layer = (typeof LAYERS)[number];

/** Rectangles that wait to be drawn. */
export class RectBatch {
  readonly #layers = new Map<Layer, Map<Fill, number[]>>(LAYERS.map((layer) => [layer, new Map<Fill, number[]>()]));

  /** Adds a rectangle, in device pixels. */
  add(layer: Layer, fill: Fill, x: number, y: number, width: number, height: number): void {
    const fills = this.#layers.get(layer) as Map<Fill, number[]>;
    const rects = fills.get(fill);
    if (rects === undefined) fills.set(fill, [x, y, width, height]);
    else rects.push(x, y, width, height);
  }

  /** Draws the rectangles, and forgets them. */
  flush(context: DrawContext): void {
    for (const fills of this.#layers.values()) {
      for (const [fill, rects] of fills) {
        context.fillStyle = fill;
        for (let index = 0; index < rects.length; index += 4) {
          context.fillRect(rects[index] as number, rects[index + 1] as number, rects[index + 2] as number, rects[index + 3] as number);
        }
      }
      fills.clear();
    }
  }
}
