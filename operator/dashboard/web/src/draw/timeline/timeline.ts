/** Draws the timeline on a canvas: the axis, the curve of free GPUs, and a row for each job. */

import { type Point, type Size, contains } from "../base/geometry";
import { anchorPatterns, buildPatterns, type Patterns } from "../base/patterns";
import type { Theme } from "../base/theme";
import { frameOf, type TimelineFrame } from "./frame";
import { paintAxis, paintNow } from "./paint-axis";
import { paintCurve } from "./paint-curve";
import { paintRows } from "./paint-rows";
import { heightOf, rowAt, type TimelineRows } from "./rows";
import type { TimelinePaint, TimelineScene } from "./scene";
import { placeOf, ticksOf, timeAt, type TimeScale } from "./time-scale";

/** The row and time at a point of the timeline. */
export interface TimelineHit {
  /** Index of the row. Absent: the axis or the curve. */
  readonly row: number | undefined;
  /** Time at the point, in milliseconds. Absent: the labels. */
  readonly at: number | undefined;
}

/** The timeline on a canvas. */
export class Timeline {
  readonly #canvas: HTMLCanvasElement;
  readonly #context: CanvasRenderingContext2D;
  #window: Size = { width: 1, height: 1 };
  #ratio = 1;
  #theme: Theme | undefined;
  #patterns: Patterns | undefined;

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false }) as CanvasRenderingContext2D;
  }

  /** The parts of the timeline. */
  get frame(): TimelineFrame {
    return frameOf(this.#window);
  }

  /** Sets the size of the window in CSS pixels, and the device pixels for each of them. */
  resize(window: Size, ratio: number): void {
    const isSharper = ratio !== this.#ratio;
    [this.#window, this.#ratio] = [window, ratio];
    this.#canvas.width = Math.max(Math.round(window.width * ratio), 1);
    this.#canvas.height = Math.max(Math.round(window.height * ratio), 1);
    if (isSharper && this.#theme !== undefined) this.setTheme(this.#theme);
  }

  /** Sets the colours. */
  setTheme(theme: Theme): void {
    this.#theme = theme;
    this.#patterns = buildPatterns(this.#context, theme, this.#ratio);
  }

  /** Returns the scale of time of a scene. */
  scaleOf(scene: Pick<TimelineScene, "window" | "now">): TimeScale {
    const { bars } = this.frame;
    return { window: scene.window, now: scene.now, left: bars.x, width: bars.width };
  }

  /** Returns the greatest distance that rows can be scrolled, in CSS pixels. */
  scrollRoom(rows: TimelineRows): number {
    return Math.max(heightOf(rows) - this.frame.rows.height, 0);
  }

  /** Returns what is at a point of the window, in CSS pixels. */
  hit(scene: TimelineScene, at: Point): TimelineHit {
    const { rows, bars } = this.frame;
    const isRow = contains(rows, at);
    return {
      row: isRow ? rowAt(scene.rows, at.y - rows.y + scene.scroll) : undefined,
      at: at.x >= bars.x ? timeAt(this.scaleOf(scene), at.x) : undefined,
    };
  }

  /** Draws a scene. */
  draw(scene: TimelineScene): void {
    if (this.#theme === undefined || this.#patterns === undefined) return;
    const [context, frame, scale] = [this.#context, this.frame, this.scaleOf(scene)];
    const paint: TimelinePaint = { context, theme: this.#theme, patterns: this.#patterns, ratio: this.#ratio, frame, scale };
    context.setTransform(this.#ratio, 0, 0, this.#ratio, 0, 0);
    // Hatches move with the bars.
    anchorPatterns(this.#patterns, placeOf(scale, scene.now), -scene.scroll, 1 / this.#ratio);
    context.fillStyle = this.#theme.ground;
    context.fillRect(0, 0, this.#window.width, this.#window.height);
    const ticks = ticksOf(scale);
    paintAxis(paint, ticks);
    paintCurve(paint, scene.curve);
    paintRows(paint, scene);
    paintNow(paint, this.#window.height);
  }
}
