/**
 * Patterns that lie over the fill of cells. Each is a mask in the colour of empty tiles, so one set
 * serves every fill; only the crosses have a colour of their own.
 */

import type { Theme } from "./theme";

/** Name of a pattern. */
export type PatternName = "hatch" | "dots" | "bars" | "falling" | "crosses";

/** All patterns. */
export const PATTERN_NAMES: readonly PatternName[] = ["hatch", "dots", "bars", "falling", "crosses"];

/** Patterns of one theme and pixel ratio. */
export type Patterns = Readonly<Record<PatternName, CanvasPattern>>;

/** Length after which a pattern repeats, in CSS pixels. */
export const PATTERN_PERIOD = 6;

/** A context that draws patterns: that of a canvas on the page or off it. */
export type DrawContext = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** Returns the patterns for a theme. `ratio` is device pixels for each CSS pixel. */
export function buildPatterns(context: DrawContext, theme: Theme, ratio: number): Patterns {
  const size = Math.max(Math.round(PATTERN_PERIOD * ratio), 4);
  const build = (draw: (tile: OffscreenCanvasRenderingContext2D) => void): CanvasPattern => {
    const canvas = new OffscreenCanvas(size, size);
    const tile = canvas.getContext("2d") as OffscreenCanvasRenderingContext2D;
    tile.fillStyle = theme.tile;
    tile.strokeStyle = theme.tile;
    draw(tile);
    return context.createPattern(canvas, "repeat") as CanvasPattern;
  };
  return {
    hatch: build((tile) => strokeDiagonal(tile, size, 0.45, 1)),
    falling: build((tile) => strokeDiagonal(tile, size, 0.45, -1)),
    bars: build((tile) => tile.fillRect(0, 0, Math.round(size * 0.4), size)),
    dots: build((tile) => maskDots(tile, size)),
    crosses: build((tile) => strokeCross(tile, size, theme.bad)),
  };
}

/**
 * Fixes the patterns to a drawing: pixels that are copied when the map moves, and pixels that are
 * drawn new, then belong to one pattern. `x` and `y` are the origin, and `scale` is units of the
 * context for each device pixel.
 */
export function anchorPatterns(patterns: Patterns, x: number, y: number, scale = 1): void {
  for (const name of PATTERN_NAMES) patterns[name].setTransform({ a: scale, d: scale, e: x, f: y });
}

function strokeDiagonal(tile: OffscreenCanvasRenderingContext2D, size: number, width: number, sign: 1 | -1): void {
  tile.lineWidth = size * width * Math.SQRT1_2;
  tile.beginPath();
  for (const offset of [-size, 0, size]) {
    const [from, to] = sign > 0 ? [2 * size, -size] : [-size, 2 * size];
    tile.moveTo(offset - size, from);
    tile.lineTo(offset + 2 * size, to);
  }
  tile.stroke();
}

function maskDots(tile: OffscreenCanvasRenderingContext2D, size: number): void {
  tile.fillRect(0, 0, size, size);
  tile.globalCompositeOperation = "destination-out";
  tile.beginPath();
  tile.arc(size / 2, size / 2, size * 0.33, 0, 2 * Math.PI);
  tile.fill();
}

function strokeCross(tile: OffscreenCanvasRenderingContext2D, size: number, colour: string): void {
  tile.strokeStyle = colour;
  tile.lineWidth = Math.max(size / 6, 1);
  const [near, far] = [size * 0.16, size * 0.84];
  tile.beginPath();
  tile.moveTo(near, near);
  tile.lineTo(far, far);
  tile.moveTo(far, near);
  tile.lineTo(near, far);
  tile.stroke();
}
