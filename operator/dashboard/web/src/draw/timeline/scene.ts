/** Content of the timeline, and its colours and context. */

import type { Patterns } from "../base/patterns";
import type { Theme } from "../base/theme";
import type { TimelineFrame } from "./frame";
import type { Curve } from "./free-curve";
import type { TimelineRows } from "./rows";
import type { TimeScale, TimeWindow } from "./time-scale";

/** Content of the timeline. */
export interface TimelineScene {
  readonly rows: TimelineRows;
  readonly curve: Curve;
  readonly window: TimeWindow;
  /** Time now, in milliseconds. */
  readonly now: number;
  /** Distance that the rows are scrolled, in CSS pixels. */
  readonly scroll: number;
  /** Index of the focused row, and of the row at the pointer. */
  readonly focus: number | undefined;
  readonly hover: number | undefined;
}

/** Context, colours and scale. The context counts in CSS pixels. */
export interface TimelinePaint {
  readonly context: CanvasRenderingContext2D;
  readonly theme: Theme;
  readonly patterns: Patterns;
  readonly ratio: number;
  readonly frame: TimelineFrame;
  readonly scale: TimeScale;
}
