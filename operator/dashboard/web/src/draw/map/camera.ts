/** Which part of the map is visible over time: direct moves, and short glides after a key. */

import type { Point, Rect, Size } from "../base/geometry";
import { between, clampView, fitView, panBy, readView, reveal, writeView, zoomAt, zoomLimits, type MapView } from "./zoom";

/** Length of a glide, in milliseconds. */
const GLIDE_MS = 160;

interface Glide {
  readonly from: MapView;
  readonly to: MapView;
  readonly start: number;
}

/** The visible part of a map. Lengths are in CSS pixels. */
export class Camera {
  #map: Size = { width: 1, height: 1 };
  #window: Size = { width: 1, height: 1 };
  #view: MapView = { scale: 1, x: 0, y: 0 };
  #glide: Glide | undefined;
  /** True while the whole map is shown: it then follows the size of the window. */
  #isFitted = true;

  /** The view to draw. */
  get view(): MapView {
    return this.#view;
  }

  /** The view at the end of the glide, or the current view. */
  get target(): MapView {
    return this.#glide?.to ?? this.#view;
  }

  /** True while a glide goes on. */
  get isGliding(): boolean {
    return this.#glide !== undefined;
  }

  /** Sets the size of the map, in map units, and of the window. A view that is not fitted keeps its centre. */
  setSizes(map: Size, window: Size): void {
    const written = this.#isFitted ? undefined : writeView(this.#view, this.#map, this.#window);
    [this.#map, this.#window, this.#glide] = [map, window, undefined];
    this.#view = readView(written, map, window) ?? fitView(map, window);
  }

  /** Goes to the view of the URL, or to the whole map without one. */
  read(text: string | undefined): void {
    const view = readView(text, this.#map, this.#window);
    this.#isFitted = view === undefined;
    this.#glide = undefined;
    this.#view = view ?? fitView(this.#map, this.#window);
  }

  /** Returns the view for the URL. Undefined: the whole map. */
  write(): string | undefined {
    return this.#isFitted ? undefined : writeView(this.target, this.#map, this.#window);
  }

  /** Moves by a distance at once. */
  pan(dx: number, dy: number): void {
    this.#jump(panBy(this.#view, dx, dy));
  }

  /** Zooms at once. The point stays where it is. */
  zoom(at: Point, factor: number): void {
    this.#jump(zoomAt(this.#view, at, factor, zoomLimits(this.#map, this.#window)));
  }

  /** Glides to a zoom. `now` is the time in milliseconds, or undefined to jump. */
  glideZoom(at: Point, factor: number, now: number | undefined): void {
    this.#go(zoomAt(this.target, at, factor, zoomLimits(this.#map, this.#window)), now);
  }

  /** Glides to the whole map. */
  glideFit(now: number | undefined): void {
    this.#go(fitView(this.#map, this.#window), now);
    this.#isFitted = true;
  }

  /** Glides to a part of the map, in map units, at most at a scale. */
  glideTo(rect: Rect, mostScale: number, now: number | undefined): void {
    const scale = Math.min(fitView(rect, this.#window).scale, mostScale);
    const x = this.#window.width / 2 - (rect.x + rect.width / 2) * scale;
    const y = this.#window.height / 2 - (rect.y + rect.height / 2) * scale;
    this.#go({ scale, x, y }, now);
  }

  /** Glides as far as needed to show a rectangle, in map units. */
  reveal(rect: Rect, now: number | undefined): void {
    const view = reveal(this.target, rect, this.#window);
    if (view !== this.target) this.#go(view, now);
  }

  /** Advances a glide to a time. */
  advance(now: number): void {
    const glide = this.#glide;
    if (glide === undefined) return;
    const part = Math.min(Math.max((now - glide.start) / GLIDE_MS, 0), 1);
    if (part === 1) this.#glide = undefined;
    this.#view = part === 1 ? glide.to : between(glide.from, glide.to, 1 - (1 - part) ** 3);
  }

  #jump(view: MapView): void {
    this.#glide = undefined;
    this.#isFitted = false;
    this.#view = clampView(view, this.#map, this.#window);
  }

  #go(view: MapView, now: number | undefined): void {
    this.#isFitted = false;
    const to = clampView(view, this.#map, this.#window);
    if (now === undefined) this.#jump(to);
    else this.#glide = { from: this.#view, to, start: now };
  }
}
