/** Draws the cluster map on a canvas: the layer, and above it what changes with the pointer and the focus. */

import { RectBatch } from "../base/batch";
import type { Point, Rect, Size } from "../base/geometry";
import { buildPatterns } from "../base/patterns";
import type { Theme } from "../base/theme";
import { cellAt, nodeAt, type CellHit } from "../layout/hit";
import { tileOf, TILE } from "../layout/layout";
import type { Brush } from "./fills";
import { MapLayer } from "./layer";
import { deviceRect } from "./paint-boxes";
import { paintNode } from "./paint-node";
import { changedTiles, hasSameGround, nodesByGang, type MapScene } from "./scene";
import { toMap, type MapView } from "./zoom";

/** The node and cell at a point of the map. */
export interface MapHit {
  /** Position of the node. */
  readonly position: number;
  /** The cell at the point. Absent: a border, a name, or a node without devices. */
  readonly cell: CellHit | undefined;
}

/** Part of the veil that covers the tiles of other gangs, from 0 to 1. */
const VEIL = 0.82;

/** The map on a canvas. Call {@link ClusterMap.draw} once a frame while {@link ClusterMap.isStale}. */
export class ClusterMap {
  readonly #canvas: HTMLCanvasElement;
  readonly #context: CanvasRenderingContext2D;
  readonly #layer = new MapLayer();
  readonly #batch = new RectBatch();
  readonly #changed = new Set<number>();
  #brush: Brush | undefined;
  #scene: MapScene | undefined;
  #byGang: ReadonlyMap<string, readonly number[]> = new Map();
  #view: MapView = { scale: 1, x: 0, y: 0 };
  #window: Size = { width: 1, height: 1 };
  #ratio = 1;
  #focus: number | undefined;
  #gangs: ReadonlySet<string> | undefined;
  #isZooming = false;
  #stale = true;

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false }) as CanvasRenderingContext2D;
  }

  /** True if the canvas does not show the current state. */
  get isStale(): boolean {
    return this.#stale;
  }

  /** Sets the size of the window in CSS pixels, and the device pixels for each of them. */
  resize(window: Size, ratio: number): void {
    if (window.width === this.#window.width && window.height === this.#window.height && ratio === this.#ratio) return;
    const sameRatio = ratio === this.#ratio;
    [this.#window, this.#ratio, this.#stale] = [window, ratio, true];
    this.#canvas.width = Math.max(Math.round(window.width * ratio), 1);
    this.#canvas.height = Math.max(Math.round(window.height * ratio), 1);
    if (!sameRatio && this.#brush !== undefined) this.setTheme(this.#brush.theme);
  }

  /** Sets the colours. */
  setTheme(theme: Theme): void {
    this.#brush = { theme, ratio: this.#ratio, patterns: buildPatterns(this.#context, theme, this.#ratio) };
    this.#layer.clear();
    this.#stale = true;
  }

  /** Sets what the map shows. Only tiles that look different are drawn again. */
  setScene(scene: MapScene): void {
    const before = this.#scene;
    if (before === scene) return;
    this.#scene = scene;
    if (before?.nodes !== scene.nodes) this.#byGang = nodesByGang(scene.nodes);
    if (before === undefined || !hasSameGround(before, scene)) {
      this.#changed.clear();
      this.#layer.clear();
      this.#stale = true;
      return;
    }
    for (const position of changedTiles(before, scene)) this.#changed.add(position);
    if (this.#changed.size > 0) this.#stale = true;
  }

  /** Sets which part of the map is visible, in CSS pixels. */
  setView(view: MapView): void {
    this.#view = view;
    this.#stale = true;
  }

  /** Says whether a zoom goes on: a picture of many nodes is then stretched, and drawn sharp at the end. */
  setZooming(isZooming: boolean): void {
    if (this.#isZooming && !isZooming) this.#stale = true;
    this.#isZooming = isZooming;
  }

  /** Sets the node with a focus ring, by position. */
  setFocus(position: number | undefined): void {
    if (position === this.#focus) return;
    this.#focus = position;
    this.#stale = true;
  }

  /** Dims everything but these gangs. Undefined: dims nothing. */
  setGangs(gangs: ReadonlySet<string> | undefined): void {
    if (gangs === this.#gangs) return;
    this.#gangs = gangs;
    this.#stale = true;
  }

  /** Returns what is at a point of the window, in CSS pixels. */
  hit(at: Point): MapHit | undefined {
    const scene = this.#scene;
    if (scene === undefined) return undefined;
    const point = toMap(this.#view, at);
    const position = nodeAt(scene.layout, point);
    const node = position === undefined ? undefined : scene.nodes[position];
    const tile = position === undefined ? undefined : tileOf(scene.layout, position);
    if (position === undefined || node === undefined || tile === undefined) return undefined;
    const { scale } = this.#view;
    const inTile = { x: (point.x - tile.x) * scale, y: (point.y - tile.y) * scale };
    const size = { width: TILE.width * scale, height: TILE.height * scale };
    return { position, cell: cellAt(node, inTile, size, scene.columns) };
  }

  /** Returns the tile of a node in CSS pixels of the window. */
  windowTile(position: number): Rect | undefined {
    const tile = this.#scene === undefined ? undefined : tileOf(this.#scene.layout, position);
    if (tile === undefined) return undefined;
    const { scale, x, y } = this.#view;
    return { x: tile.x * scale + x, y: tile.y * scale + y, width: tile.width * scale, height: tile.height * scale };
  }

  /** Draws the current state. */
  draw(): void {
    this.#stale = false;
    const [scene, brush] = [this.#scene, this.#brush];
    if (scene === undefined || brush === undefined) return;
    const view = this.#deviceView();
    const { width, height } = this.#canvas;
    if (!this.#isZooming || !this.#layer.canStretch(view, width, height)) {
      this.#layer.update(scene, brush, view, width, height, this.#changed);
      this.#changed.clear();
    }
    this.#layer.copyTo(this.#context, brush, view);
    if (this.#gangs !== undefined) this.#drawGangs(scene, brush, view, this.#gangs);
    if (this.#focus !== undefined) this.#drawFocus(scene, brush, view, this.#focus);
  }

  /** Whole device pixels let the layer copy its pixels when the map moves. */
  #deviceView(): MapView {
    const { scale, x, y } = this.#view;
    return { scale: scale * this.#ratio, x: Math.round(x * this.#ratio), y: Math.round(y * this.#ratio) };
  }

  #drawGangs(scene: MapScene, brush: Brush, view: MapView, gangs: ReadonlySet<string>): void {
    const context = this.#context;
    context.globalAlpha = VEIL;
    context.fillStyle = brush.theme.ground;
    context.fillRect(0, 0, this.#canvas.width, this.#canvas.height);
    context.globalAlpha = 1;
    const paint = { batch: this.#batch, brush, look: scene.look, columns: scene.columns, fit: undefined, gang: gangs };
    for (const position of new Set([...gangs].flatMap((gang) => this.#byGang.get(gang) ?? []))) {
      const [tile, node] = [tileOf(scene.layout, position), scene.nodes[position]];
      if (tile !== undefined && node !== undefined) paintNode(node, deviceRect(tile, view), paint);
    }
    this.#batch.flush(context);
  }

  #drawFocus(scene: MapScene, brush: Brush, view: MapView, position: number): void {
    const tile = tileOf(scene.layout, position);
    if (tile === undefined) return;
    const rect = deviceRect(tile, view);
    const context = this.#context;
    const ring = (width: number, distance: number, colour: string): void => {
      context.lineWidth = width * brush.ratio;
      context.strokeStyle = colour;
      const d = distance * brush.ratio;
      context.strokeRect(rect.x - d, rect.y - d, rect.width + 2 * d, rect.height + 2 * d);
    };
    // Two rings: one of them stands out against any neighbour.
    ring(5, 2, brush.theme.ground);
    ring(2.5, 2, brush.theme.focus);
  }
}
