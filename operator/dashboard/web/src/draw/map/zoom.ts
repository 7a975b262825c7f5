/** Zoom and pan of the map. All functions are pure; lengths are in CSS pixels unless said otherwise. */

import type { Point, Size } from "../base/geometry";


/** Which part of the map the window shows. */
export interface MapView {
  /** Pixels for each map unit. */
  readonly scale: number;
  /** Pixels from the left edge of the window to the left edge of the map. */
  readonly x: number;
  /** Pixels from the upper edge of the window to the upper edge of the map. */
  readonly y: number;
}

/** Least and greatest scale, in pixels for each map unit. */
export interface ZoomLimits {
  readonly least: number;
  readonly most: number;
}

/** Distance between the fitted map and the edges of the window. */
const MARGIN = 10;

/** Scale beyond which a fitted map does not grow: a single node does not fill the window. */
const FITTED_MOST = 3;

/** Greatest scale. A tile is then 448 pixels wide. */
const MOST = 7;

/** Factor of one step of the `+` and `-` keys. */
export const ZOOM_STEP = 1.5;

/** Returns the view that shows the whole map, centred and as large as it fits. */
export function fitView(map: Size, window: Size): MapView {
  const width = Math.max(window.width - 2 * MARGIN, 1);
  const height = Math.max(window.height - 2 * MARGIN, 1);
  const scale = Math.min(width / Math.max(map.width, 1), height / Math.max(map.height, 1), FITTED_MOST);
  return {
    scale,
    x: (window.width - map.width * scale) / 2,
    y: Math.max(((window.height - map.height * scale) / 2) * topShare(map, window, scale), MARGIN),
  };
}

/** A map that is much lower than the window stands near its upper edge, where readers look first. */
function topShare(map: Size, window: Size, scale: number): number {
  return map.height * scale < window.height / 2 ? 0.3 : 1;
}

/** Returns the limits of the scale for a map in a window. */
export function zoomLimits(map: Size, window: Size): ZoomLimits {
  return { least: fitView(map, window).scale * 0.7, most: MOST };
}

/** Returns the view zoomed by a factor. The point of the map under `at` stays where it is. */
export function zoomAt(view: MapView, at: Point, factor: number, limits: ZoomLimits): MapView {
  const scale = Math.min(Math.max(view.scale * factor, limits.least), limits.most);
  const ratio = scale / view.scale;
  return { scale, x: at.x - (at.x - view.x) * ratio, y: at.y - (at.y - view.y) * ratio };
}

/** Returns the view moved by a distance. */
export function panBy(view: MapView, dx: number, dy: number): MapView {
  return { scale: view.scale, x: view.x + dx, y: view.y + dy };
}

/** Returns the view moved so that part of the map stays in the window. */
export function clampView(view: MapView, map: Size, window: Size): MapView {
  const clamp = (at: number, length: number, room: number): number => {
    const visible = Math.min(80, length, room);
    return Math.min(Math.max(at, visible - length), room - visible);
  };
  return {
    scale: view.scale,
    x: clamp(view.x, map.width * view.scale, window.width),
    y: clamp(view.y, map.height * view.scale, window.height),
  };
}

/** Returns the point of the map, in map units, at a point of the window. */
export function toMap(view: MapView, at: Point): Point {
  return { x: (at.x - view.x) / view.scale, y: (at.y - view.y) / view.scale };
}

/** Returns the point of the window at a point of the map, which is in map units. */
export function toWindow(view: MapView, at: Point): Point {
  return { x: at.x * view.scale + view.x, y: at.y * view.scale + view.y };
}

/** Returns the view moved as little as needed to show a rectangle, which is in map units. */
export function reveal(view: MapView, rect: Point & Size, window: Size, margin = 8): MapView {
  const shift = (from: number, length: number, room: number): number => {
    const space = Math.max(Math.min(margin, (room - length) / 2), 0);
    if (from < space) return space - from;
    return from + length > room - space ? room - space - from - length : 0;
  };
  const { x, y } = toWindow(view, rect);
  const dx = shift(x, rect.width * view.scale, window.width);
  const dy = shift(y, rect.height * view.scale, window.height);
  return dx === 0 && dy === 0 ? view : panBy(view, dx, dy);
}

/** Returns the view between two views, `part` from 0 to 1 of the way. The scale changes evenly to the eye. */
export function between(from: MapView, to: MapView, part: number): MapView {
  const scale = from.scale * (to.scale / from.scale) ** part;
  const travelled = to.scale === from.scale ? part : (scale - from.scale) / (to.scale - from.scale);
  return { scale, x: from.x + (to.x - from.x) * travelled, y: from.y + (to.y - from.y) * travelled };
}

/**
 * Writes a view for the URL, independent of the size of the window: the zoom relative to the fitted
 * map, and the centre as parts of the map. Returns undefined for the fitted map.
 */
export function writeView(view: MapView, map: Size, window: Size): string | undefined {
  const fitted = fitView(map, window);
  const same = Math.abs(view.scale / fitted.scale - 1) < 0.005;
  if (same && Math.abs(view.x - fitted.x) < 1 && Math.abs(view.y - fitted.y) < 1) return undefined;
  const centre = toMap(view, { x: window.width / 2, y: window.height / 2 });
  const parts = [view.scale / fitted.scale, centre.x / Math.max(map.width, 1), centre.y / Math.max(map.height, 1)];
  return parts.map((part) => String(Math.round(part * 1000) / 1000)).join(",");
}

/** Reads a view that {@link writeView} wrote. Returns undefined for any other text. */
export function readView(text: string | undefined, map: Size, window: Size): MapView | undefined {
  const parts = (text ?? "").split(",").map(Number);
  const [zoom = Number.NaN, x = Number.NaN, y = Number.NaN] = parts;
  if (parts.length !== 3 || !parts.every(Number.isFinite) || zoom <= 0) return undefined;
  const limits = zoomLimits(map, window);
  const scale = Math.min(Math.max(fitView(map, window).scale * zoom, limits.least), limits.most);
  const view = {
    scale,
    x: window.width / 2 - x * map.width * scale,
    y: window.height / 2 - y * map.height * scale,
  };
  return clampView(view, map, window);
}
