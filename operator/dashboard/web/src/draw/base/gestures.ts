/** Turns events of pointers and wheels on an element into moves, zooms, points and clicks. */

import type { Point } from "./geometry";


/** Reactions of a drawing to gestures. Points and distances are in CSS pixels of the element. */
export interface GestureTarget {
  /** The drawing is moved. */
  pan(dx: number, dy: number): void;
  /** The drawing is zoomed by a factor, and the point stays where it is. */
  zoom(at: Point, factor: number): void;
  /** The wheel is turned. Returns false to let the page scroll. */
  wheel(event: WheelEvent, at: Point): boolean;
  /** The pointer rests or moves at a point, or leaves. */
  point(at: Point | undefined): void;
  /** A click or tap. */
  click(at: Point): void;
  /** A double click. */
  doubleClick(at: Point): void;
}

/** Distance beyond which a press is a drag and no click. */
const DRAG_FROM = 5;

/** Lines and pages of wheels that do not count pixels. */
const LINE_PIXELS = 16;
const PAGE_PIXELS = 400;

/** Returns the distance of a wheel event in CSS pixels. */
export function wheelPixels(event: WheelEvent): { readonly x: number; readonly y: number } {
  const unit = event.deltaMode === 1 ? LINE_PIXELS : event.deltaMode === 2 ? PAGE_PIXELS : 1;
  return { x: event.deltaX * unit, y: event.deltaY * unit };
}

/** Returns the zoom factor of a wheel event. A pinch on a touch pad comes with the Control key and small steps. */
export function wheelFactor(event: WheelEvent): number {
  const step = Math.max(Math.min(wheelPixels(event).y, 120), -120);
  return Math.exp(-step * (event.ctrlKey ? 0.01 : 0.0022));
}

/** Listens to an element. Returns the function that stops. */
export function listenToGestures(element: HTMLElement, target: GestureTarget): () => void {
  const gestures = new Gestures(element, target);
  const stop = new AbortController();
  const options = { signal: stop.signal };
  element.addEventListener("pointerdown", (event) => gestures.press(event), options);
  element.addEventListener("pointermove", (event) => gestures.move(event), options);
  element.addEventListener("pointerup", (event) => gestures.release(event, true), options);
  element.addEventListener("pointercancel", (event) => gestures.release(event, false), options);
  element.addEventListener("pointerleave", () => target.point(undefined), options);
  element.addEventListener("dblclick", (event) => target.doubleClick(gestures.place(event)), options);
  const wheel = (event: WheelEvent): void => {
    if (target.wheel(event, gestures.place(event))) event.preventDefault();
  };
  element.addEventListener("wheel", wheel, { ...options, passive: false });
  return () => stop.abort();
}

class Gestures {
  readonly #element: HTMLElement;
  readonly #target: GestureTarget;
  /** Pressed pointers by id. */
  readonly #pressed = new Map<number, Point>();
  #start: Point = { x: 0, y: 0 };
  #isDrag = false;

  constructor(element: HTMLElement, target: GestureTarget) {
    this.#element = element;
    this.#target = target;
  }

  place(event: MouseEvent): Point {
    const box = this.#element.getBoundingClientRect();
    return { x: event.clientX - box.left - this.#element.clientLeft, y: event.clientY - box.top - this.#element.clientTop };
  }

  press(event: PointerEvent): void {
    if (event.button !== 0) return;
    const at = this.place(event);
    this.#pressed.set(event.pointerId, at);
    this.#isDrag = this.#pressed.size > 1;
    if (this.#pressed.size === 1) this.#start = at;
    this.#element.setPointerCapture(event.pointerId);
  }

  move(event: PointerEvent): void {
    const at = this.place(event);
    const before = this.#pressed.get(event.pointerId);
    if (before === undefined) {
      if (event.pointerType !== "touch") this.#target.point(at);
      return;
    }
    if (this.#pressed.size > 1) this.#pinch(event.pointerId, before, at);
    else this.#drag(before, at);
  }

  release(event: PointerEvent, isClick: boolean): void {
    const wasPressed = this.#pressed.delete(event.pointerId);
    if (!wasPressed || this.#pressed.size > 0) return;
    if (isClick && !this.#isDrag) this.#target.click(this.place(event));
    this.#isDrag = false;
  }

  #drag(before: Point, at: Point): void {
    if (!this.#isDrag && distance(this.#start, at) < DRAG_FROM) return;
    // The whole distance since the press counts, so that the drawing stays under the pointer.
    const from = this.#isDrag ? before : this.#start;
    if (!this.#isDrag) this.#target.point(undefined);
    this.#isDrag = true;
    for (const id of this.#pressed.keys()) this.#pressed.set(id, at);
    this.#target.pan(at.x - from.x, at.y - from.y);
  }

  #pinch(id: number, before: Point, at: Point): void {
    const other = [...this.#pressed].find(([key]) => key !== id)?.[1];
    if (other === undefined) return;
    const [old, next] = [middle(before, other), middle(at, other)];
    this.#pressed.set(id, at);
    this.#target.pan(next.x - old.x, next.y - old.y);
    this.#target.zoom(next, distance(at, other) / Math.max(distance(before, other), 1));
  }
}

function distance(a: Point, b: Point): number {
  return Math.hypot(a.x - b.x, a.y - b.y);
}

function middle(a: Point, b: Point): Point {
  return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
}
