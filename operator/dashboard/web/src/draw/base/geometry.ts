/** Points and rectangles, in the units of the drawing. Pure. */

/** Size of a rectangle. */
export interface Size {
  readonly width: number;
  readonly height: number;
}

/** A point. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

/** A rectangle. */
export interface Rect extends Size {
  readonly x: number;
  readonly y: number;
}

/** Returns true if a rectangle contains a point. Its right and lower edges do not belong to it. */
export function contains(rect: Rect, at: Point): boolean {
  return at.x >= rect.x && at.x < rect.x + rect.width && at.y >= rect.y && at.y < rect.y + rect.height;
}

/** Returns true if two rectangles have an area in common. */
export function overlaps(a: Rect, b: Rect): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}
