/** Places of the parts of the timeline. Lengths are in CSS pixels. Pure. */

import type { Rect, Size } from "../base/geometry";


/** Height of the axis and of the curve. */
const AXIS = 26;
const CURVE = 76;

/** Width below which labels are short. */
const NARROW = 620;

/** The parts of the timeline. */
export interface TimelineFrame {
  /** Labels of rows, left of the bars. */
  readonly labels: number;
  readonly axis: Rect;
  readonly curve: Rect;
  /** The rows, with their labels. */
  readonly rows: Rect;
  /** The bars: the rows without their labels. */
  readonly bars: Rect;
}

/** Returns the parts of a timeline in a window. */
export function frameOf(window: Size): TimelineFrame {
  const labels = window.width < NARROW ? 112 : 248;
  const width = Math.max(window.width - labels, 1);
  const top = AXIS + CURVE;
  const height = Math.max(window.height - top, 1);
  return {
    labels,
    axis: { x: labels, y: 0, width, height: AXIS },
    curve: { x: labels, y: AXIS, width, height: CURVE },
    rows: { x: 0, y: top, width: window.width, height },
    bars: { x: labels, y: top, width, height },
  };
}
