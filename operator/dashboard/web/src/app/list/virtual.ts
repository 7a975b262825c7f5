/** Arithmetic of long lists: which rows of fixed height are in view. Pure. */

/** A list of rows and the part of it that can be seen, in pixels. */
export interface ListView {
  readonly count: number;
  readonly rowHeight: number;
  /** Pixels of the list above the top of the view. Negative: the list begins below the top. */
  readonly above: number;
  readonly viewHeight: number;
  /** Rows to draw before and after those in view. */
  readonly overscan: number;
}

/** Rows to draw: from `first` up to, but not including, `end`. */
export interface RowRange {
  readonly first: number;
  readonly end: number;
}

/** Returns the rows to draw. */
export function rowsInView(list: ListView): RowRange {
  const { count, rowHeight, above, viewHeight, overscan } = list;
  const top = Math.floor(above / rowHeight) - overscan;
  const bottom = Math.ceil((above + viewHeight) / rowHeight) + overscan;
  const first = Math.min(Math.max(top, 0), count);
  return { first, end: Math.min(Math.max(bottom, first), count) };
}
