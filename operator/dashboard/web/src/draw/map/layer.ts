/**
 * An offscreen picture of the map. It is drawn anew when the zoom or the ground changes; when the
 * map moves, its pixels are copied and only the uncovered strips are drawn; when nodes change, only
 * their tiles are drawn. While a zoom goes on, a picture of many nodes is stretched instead.
 */

import { RectBatch } from "../base/batch";
import type { Rect } from "../base/geometry";
import { anchorPatterns, type DrawContext } from "../base/patterns";
import { visitNodesIn } from "../layout/hit";
import { tileOf } from "../layout/layout";
import type { Brush } from "./fills";
import { deviceRect, paintBoxes } from "./paint-boxes";
import { paintNode, type NodePaint } from "./paint-node";
import { paintText, type TextPaint } from "./paint-text";
import type { MapScene } from "./scene";
import { toMap, type MapView } from "./zoom";

interface Surface {
  readonly canvas: OffscreenCanvas;
  readonly context: OffscreenCanvasRenderingContext2D;
}

/** Number of nodes that are drawn anew in every frame of a zoom. */
const FAST_NODES = 300;

/** A stretched picture is replaced when its scale differs from the view by more than this factor. */
const MOST_STRETCH = 1.7;

/** The picture. All lengths are in device pixels. */
export class MapLayer {
  readonly #batch = new RectBatch();
  #front: Surface | undefined;
  #back: Surface | undefined;
  /** The whole map, for the edges that a zoom out uncovers. */
  #overview: { readonly canvas: OffscreenCanvas; readonly view: MapView } | undefined;
  #view: MapView | undefined;
  /** Number of nodes that the last whole drawing had. */
  #nodes = 0;
  #width = 0;
  #height = 0;

  /** Forgets the picture: its size, theme or ground has changed. */
  clear(): void {
    this.#view = undefined;
    this.#overview = undefined;
  }

  /** Returns true if the picture may be stretched to a view for a moment. */
  canStretch(view: MapView, width: number, height: number): boolean {
    if (this.#view === undefined || width !== this.#width || height !== this.#height || this.#nodes <= FAST_NODES) return false;
    const stretch = view.scale / this.#view.scale;
    return stretch !== 1 && stretch < MOST_STRETCH && stretch > 1 / MOST_STRETCH;
  }

  /** Copies the picture to the screen, stretched if it was drawn for another view. */
  copyTo(context: CanvasRenderingContext2D, brush: Brush, view: MapView): void {
    const [front, drawn] = [this.#front, this.#view];
    if (front === undefined || drawn === undefined) return;
    if (drawn.scale === view.scale) {
      context.drawImage(front.canvas, view.x - drawn.x, view.y - drawn.y);
      return;
    }
    context.fillStyle = brush.theme.ground;
    context.fillRect(0, 0, this.#width, this.#height);
    if (this.#overview !== undefined && view.scale < drawn.scale) stretch(context, this.#overview.canvas, this.#overview.view, view);
    stretch(context, front.canvas, drawn, view);
  }

  /** Brings the picture to a view. `changed` are the positions of nodes that look different than before. */
  update(scene: MapScene, brush: Brush, view: MapView, width: number, height: number, changed: ReadonlySet<number>): void {
    if (width !== this.#width || height !== this.#height || this.#front === undefined) this.#resize(width, height);
    const before = this.#view;
    this.#view = view;
    anchorPatterns(brush.patterns, view.x, view.y);
    if (before === undefined || before.scale !== view.scale || !this.#move(scene, brush, view, before)) {
      this.#nodes = this.#paint(scene, brush, view, { x: 0, y: 0, width, height });
      if (this.#nodes === scene.nodes.length) this.#keepOverview(view);
      return;
    }
    this.#paintTiles(scene, brush, view, changed);
  }

  #resize(width: number, height: number): void {
    [this.#width, this.#height, this.#view, this.#overview] = [width, height, undefined, undefined];
    this.#front = createSurface(width, height);
    this.#back = createSurface(width, height);
  }

  /** Copies the pixels by the distance that the map has moved. Returns false if none stay visible. */
  #move(scene: MapScene, brush: Brush, view: MapView, before: MapView): boolean {
    const [dx, dy] = [view.x - before.x, view.y - before.y];
    if (dx === 0 && dy === 0) return true;
    const [width, height] = [this.#width, this.#height];
    if (Math.abs(dx) >= width || Math.abs(dy) >= height) return false;
    const [front, back] = [this.#front as Surface, this.#back as Surface];
    back.context.drawImage(front.canvas, dx, dy);
    [this.#front, this.#back] = [back, front];
    if (dx !== 0) this.#paint(scene, brush, view, { x: dx > 0 ? 0 : width + dx, y: 0, width: Math.abs(dx), height });
    if (dy !== 0) this.#paint(scene, brush, view, { x: 0, y: dy > 0 ? 0 : height + dy, width, height: Math.abs(dy) });
    return true;
  }

  #keepOverview(view: MapView): void {
    const canvas = this.#overview?.canvas ?? createSurface(this.#width, this.#height).canvas;
    canvas.getContext("2d")?.drawImage((this.#front as Surface).canvas, 0, 0);
    this.#overview = { canvas, view };
  }

  /** Draws a part of the picture. Returns the number of nodes in it. */
  #paint(scene: MapScene, brush: Brush, view: MapView, part: Rect): number {
    const { context } = this.#front as Surface;
    context.save();
    context.beginPath();
    context.rect(part.x, part.y, part.width, part.height);
    context.clip();
    context.fillStyle = brush.theme.ground;
    context.fillRect(part.x, part.y, part.width, part.height);
    const from = toMap(view, part);
    const area = { ...from, width: part.width / view.scale, height: part.height / view.scale };
    paintBoxes(context, brush, scene.layout.boxes, view, area);
    const positions: number[] = [];
    visitNodesIn(scene.layout, area, (position) => positions.push(position));
    paintNodes(context, this.#batch, scene, brush, view, positions);
    context.restore();
    return positions.length;
  }

  #paintTiles(scene: MapScene, brush: Brush, view: MapView, changed: ReadonlySet<number>): void {
    if (changed.size === 0) return;
    const visible = [...changed].filter((position) => {
      const tile = tileOf(scene.layout, position);
      if (tile === undefined) return false;
      const rect = deviceRect(tile, view);
      return rect.x < this.#width && rect.y < this.#height && rect.x + rect.width > 0 && rect.y + rect.height > 0;
    });
    paintNodes((this.#front as Surface).context, this.#batch, scene, brush, view, visible);
  }
}

/** Draws whole tiles. `view` is in device pixels. */
export function paintNodes(context: DrawContext, batch: RectBatch, scene: MapScene, brush: Brush, view: MapView, positions: readonly number[]): void {
  const base = { batch, brush, look: scene.look, columns: scene.columns, gang: undefined };
  const text: Omit<TextPaint, "fit"> = { context, brush, look: scene.look, now: scene.now };
  const tiles: [number, Rect][] = [];
  for (const position of positions) {
    const [tile, node] = [tileOf(scene.layout, position), scene.nodes[position]];
    if (tile === undefined || node === undefined) continue;
    const rect = deviceRect(tile, view);
    const paint: NodePaint = { ...base, fit: scene.fits?.[position]?.kind };
    paintNode(node, rect, paint);
    tiles.push([position, rect]);
  }
  batch.flush(context);
  for (const [position, rect] of tiles) {
    const node = scene.nodes[position];
    if (node !== undefined) paintText(node, rect, { ...text, fit: scene.fits?.[position] });
  }
}

/** Draws a picture of one view where it belongs in another view. */
function stretch(context: CanvasRenderingContext2D, picture: OffscreenCanvas, drawn: MapView, view: MapView): void {
  const ratio = view.scale / drawn.scale;
  context.drawImage(picture, view.x - drawn.x * ratio, view.y - drawn.y * ratio, picture.width * ratio, picture.height * ratio);
}

function createSurface(width: number, height: number): Surface {
  const canvas = new OffscreenCanvas(Math.max(width, 1), Math.max(height, 1));
  const context = canvas.getContext("2d", { alpha: false }) as OffscreenCanvasRenderingContext2D;
  return { canvas, context };
}
