/** Connects the drawing of the map with the pointer, the keyboard, the URL and the clock of frames. */

import { signal } from "@preact/signals";

import { announce } from "../../app/page/announce";
import { navigate, query, setQuery, urls } from "../../app/page/route";
import { FramePlanner } from "../../draw/base/frames";
import type { Point, Rect, Size } from "../../draw/base/geometry";
import { listenToGestures, wheelFactor, wheelPixels } from "../../draw/base/gestures";
import type { Theme } from "../../draw/base/theme";
import { tileOf, TILE } from "../../draw/layout/layout";
import { walk, walkGrid, type Direction } from "../../draw/layout/walk";
import { Camera } from "../../draw/map/camera";
import { ClusterMap, type MapHit } from "../../draw/map/map";
import { positionOf, type MapScene } from "../../draw/map/scene";
import { ZOOM_STEP } from "../../draw/map/zoom";
import { describeNode } from "../../draw/node/describe";
import { chooseGang, litGangs } from "./model";

/** Time for which the pointer rests on a gang before all others are dimmed, in milliseconds. */
const DWELL_MS = 140;

/** Time after the last move after which the URL takes the view, in milliseconds. */
const SETTLE_MS = 350;

/** Time after the last step of a zoom after which the map is drawn sharp, in milliseconds. */
const SHARPEN_MS = 90;

/** Greatest scale to which a click on "show" zooms: tiles then have names and jobs. */
const SHOWN_SCALE = 3;

/** The node at the pointer, or the node that the keyboard has walked to. */
export interface Pointed {
  readonly hit: MapHit;
  /** Tile of the node, in CSS pixels of the window. */
  readonly tile: Rect;
  readonly by: "pointer" | "keyboard";
}

const DIRECTIONS: Readonly<Record<string, Direction>> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
};

/** The map on a canvas and what moves it. */
export class MapController {
  /** The node at the pointer, or the node that the keyboard has walked to. */
  readonly pointed = signal<Pointed | undefined>(undefined);
  /** Content of the map. */
  readonly scene = signal<MapScene | undefined>(undefined);
  readonly #map: ClusterMap;
  readonly #camera = new Camera();
  readonly #frames = new FramePlanner((time) => this.#frame(time));
  readonly #stopGestures: () => void;
  #scene: MapScene | undefined;
  #window: Size = { width: 1, height: 1 };
  #isPlaced = false;
  #focus: number | undefined;
  #dwell: ReturnType<typeof setTimeout> | undefined;
  #settle: ReturnType<typeof setTimeout> | undefined;
  #sharpen: ReturnType<typeof setTimeout> | undefined;

  constructor(canvas: HTMLCanvasElement) {
    this.#map = new ClusterMap(canvas);
    this.#stopGestures = listenToGestures(canvas, {
      pan: (dx, dy) => this.#moved(() => this.#camera.pan(dx, dy)),
      zoom: (at, factor) => this.#moved(() => this.#camera.zoom(at, factor)),
      wheel: (event, at) => this.#wheel(event, at),
      point: (at) => this.#point(at),
      click: (at) => this.#click(at),
      doubleClick: (at) => this.#moved(() => this.#camera.glideZoom(at, ZOOM_STEP * ZOOM_STEP, this.#glideStart())),
    });
  }

  /** Stops everything. */
  stop(): void {
    this.#stopGestures();
    this.#frames.cancel();
    clearTimeout(this.#dwell);
    clearTimeout(this.#settle);
    clearTimeout(this.#sharpen);
  }

  /** Sets the size of the window in CSS pixels, and the device pixels for each of them. */
  resize(window: Size, ratio: number): void {
    this.#window = window;
    this.#map.resize(window, ratio);
    if (this.#scene !== undefined) this.#camera.setSizes(this.#scene.layout, window);
    this.#refresh();
  }

  /** Sets the colours. */
  setTheme(theme: Theme): void {
    this.#map.setTheme(theme);
    this.#frames.plan();
  }

  /** Sets what the map shows. */
  setScene(scene: MapScene): void {
    const isNewLayout = this.#scene?.layout !== scene.layout;
    const focused = this.#focus === undefined ? undefined : this.#scene?.layout.names[this.#focus];
    this.#scene = scene;
    this.scene.value = scene;
    this.#map.setScene(scene);
    if (isNewLayout) {
      this.#camera.setSizes(scene.layout, this.#window);
      if (!this.#isPlaced) this.#camera.read(query.peek().get("zoom") ?? undefined);
      this.#setFocus(positionOf(scene, focused ?? query.peek().get("at") ?? undefined));
      if (!this.#isPlaced) this.#revealFocus();
      this.#isPlaced = true;
    }
    this.#refresh();
  }

  /** Follows a change of the URL by Back or a link: the focused node and the view. */
  followUrl(at: string | undefined, zoom: string | undefined): void {
    if (this.#scene === undefined || this.#settle !== undefined) return;
    if (zoom !== this.#camera.write()) this.#camera.read(zoom);
    const position = positionOf(this.#scene, at);
    if (position !== this.#focus) this.#setFocus(position);
    this.#refresh();
  }

  /** Dims everything but these gangs. */
  light(gangs: ReadonlySet<string> | undefined): void {
    this.#map.setGangs(gangs);
    this.#frames.plan();
  }

  /** Zooms around the middle of the window. */
  zoom(factor: number): void {
    const middle = { x: this.#window.width / 2, y: this.#window.height / 2 };
    this.#moved(() => this.#camera.glideZoom(this.#focusPoint() ?? middle, factor, this.#glideStart()));
  }

  /** Shows the whole map. */
  fit(): void {
    this.#moved(() => this.#camera.glideFit(this.#glideStart()));
  }

  /** Zooms to a set of nodes, by position. */
  show(positions: readonly number[]): void {
    const tiles = positions.map((position) => this.#tile(position)).filter((tile) => tile !== undefined);
    if (tiles.length === 0) return;
    const x = Math.min(...tiles.map((tile) => tile.x));
    const y = Math.min(...tiles.map((tile) => tile.y));
    const right = Math.max(...tiles.map((tile) => tile.x + tile.width));
    const bottom = Math.max(...tiles.map((tile) => tile.y + tile.height));
    this.#moved(() => this.#camera.glideTo({ x, y, width: right - x, height: bottom - y }, SHOWN_SCALE, this.#glideStart()));
  }

  /** Handles a key of the focused map. Returns false for a key that it does not use. */
  key(event: KeyboardEvent): boolean {
    if (event.ctrlKey || event.metaKey || event.altKey || this.#scene === undefined) return false;
    const last = this.#scene.layout.names.length - 1;
    const from = this.#focus ?? 0;
    const direction = DIRECTIONS[event.key];
    if (direction !== undefined && event.shiftKey) return this.#panByKey(direction);
    if (direction !== undefined) return this.#walkTo(this.#focus === undefined ? this.#firstVisible() : walk(this.#scene.layout, from, direction));
    switch (event.key) {
      case "Home":
        return this.#walkTo(0);
      case "End":
        return this.#walkTo(last);
      case "PageDown":
        return this.#walkTo(walkGrid(this.#scene.layout, from, 1));
      case "PageUp":
        return this.#walkTo(walkGrid(this.#scene.layout, from, -1));
      case "Enter":
        return this.#open();
      case " ":
        return this.#chooseNextGang();
      case "Escape":
        return this.#clear();
      default:
        return false;
    }
  }

  /** Ends the tip and the dimming of the keyboard: the map has lost its focus. */
  blur(): void {
    if (this.pointed.peek()?.by === "keyboard") this.pointed.value = undefined;
    this.light(litGangs.peek());
  }

  #moved(move: () => void): void {
    const { scale } = this.#camera.view;
    move();
    if (this.#camera.view.scale !== scale || this.#camera.isGliding) this.#planSharpening();
    this.#planUrl();
    this.#refresh();
  }

  #planSharpening(): void {
    this.#map.setZooming(true);
    clearTimeout(this.#sharpen);
    this.#sharpen = setTimeout(() => {
      if (this.#camera.isGliding) return this.#planSharpening();
      this.#map.setZooming(false);
      this.#frames.plan();
    }, SHARPEN_MS);
  }

  /** Writes the view and the focus into the URL once the user pauses: browsers limit how often it may change. */
  #planUrl(): void {
    clearTimeout(this.#settle);
    this.#settle = setTimeout(() => this.#writeUrl(), SETTLE_MS);
  }

  #writeUrl(): void {
    clearTimeout(this.#settle);
    this.#settle = undefined;
    setQuery({ zoom: this.#camera.write(), at: this.#focus === undefined ? undefined : this.#scene?.layout.names[this.#focus] });
  }

  #refresh(): void {
    this.#map.setView(this.#camera.view);
    const pointed = this.pointed.peek();
    const tile = pointed === undefined ? undefined : this.#map.windowTile(pointed.hit.position);
    if (pointed !== undefined) this.pointed.value = tile === undefined ? undefined : { ...pointed, tile };
    this.#frames.plan();
  }

  #frame(time: number): void {
    if (this.#camera.isGliding) {
      this.#camera.advance(time);
      this.#refresh();
    }
    if (this.#map.isStale) this.#map.draw();
  }

  /** The start of a glide, or undefined if the user wants no motion. */
  #glideStart(): number | undefined {
    return matchMedia("(prefers-reduced-motion: reduce)").matches ? undefined : performance.now();
  }

  #wheel(event: WheelEvent, at: Point): boolean {
    const pixels = wheelPixels(event);
    if (event.shiftKey || Math.abs(pixels.x) > Math.abs(pixels.y)) {
      this.#moved(() => this.#camera.pan(-(pixels.x || pixels.y), 0));
    } else {
      this.#moved(() => this.#camera.zoom(at, wheelFactor(event)));
    }
    return true;
  }

  #point(at: Point | undefined): void {
    const hit = at === undefined ? undefined : this.#map.hit(at);
    const tile = hit === undefined ? undefined : this.#map.windowTile(hit.position);
    const before = this.pointed.peek();
    const isSame = before?.by === "pointer" && before.hit.position === hit?.position && before.hit.cell?.run === hit?.cell?.run;
    if (!isSame) this.pointed.value = hit === undefined || tile === undefined ? undefined : { hit, tile, by: "pointer" };
    this.#dim(hit?.cell?.run.gang);
  }

  /** Dims all but a gang after the pointer has rested on it; leaving it ends the dimming at once. */
  #dim(gang: string | undefined): void {
    clearTimeout(this.#dwell);
    const gangs = gang === undefined ? litGangs.peek() : new Set([gang]);
    if (gang === undefined) this.light(gangs);
    else this.#dwell = setTimeout(() => this.light(gangs), DWELL_MS);
  }

  #click(at: Point): void {
    const hit = this.#map.hit(at);
    const gang = hit?.cell?.run.gang;
    this.#setFocus(hit?.position);
    chooseGang(gang);
    this.#planUrl();
    this.#point(at);
  }

  #walkTo(position: number): boolean {
    const node = this.#scene?.nodes[position];
    const tile = this.#tile(position);
    if (node === undefined || tile === undefined) return true;
    this.#setFocus(position);
    this.#moved(() => this.#camera.reveal(tile, this.#glideStart()));
    const windowTile = this.#map.windowTile(position);
    if (windowTile !== undefined) this.pointed.value = { hit: { position, cell: undefined }, tile: windowTile, by: "keyboard" };
    const gangs = (node.jobs ?? []).map((hold) => `${hold.namespace}/${hold.name}`);
    this.light(litGangs.peek() ?? (gangs.length > 0 ? new Set(gangs) : undefined));
    this.#planUrl();
    announce(describeNode(node, this.#scene?.now ?? new Date()));
    return true;
  }

  #panByKey(direction: Direction): boolean {
    const step = { x: this.#window.width / 4, y: this.#window.height / 4 };
    const sign = direction === "left" || direction === "up" ? 1 : -1;
    const isAcross = direction === "left" || direction === "right";
    this.#moved(() => this.#camera.pan(isAcross ? sign * step.x : 0, isAcross ? 0 : sign * step.y));
    return true;
  }

  #open(): boolean {
    const name = this.#focus === undefined ? undefined : this.#scene?.layout.names[this.#focus];
    if (name === undefined) return false;
    this.#writeUrl();
    navigate(urls.node(name));
    return true;
  }

  /** Chooses the first gang of the focused node, or the one after the chosen gang. */
  #chooseNextGang(): boolean {
    const node = this.#focus === undefined ? undefined : this.#scene?.nodes[this.#focus];
    const gangs = (node?.jobs ?? []).map((hold) => `${hold.namespace}/${hold.name}`);
    const chosen = [...(litGangs.peek() ?? [])][0];
    const next = gangs[(chosen === undefined ? -1 : gangs.indexOf(chosen)) + 1];
    chooseGang(next);
    announce(next === undefined ? "No job is chosen." : `${next} is chosen.`);
    return true;
  }

  #clear(): boolean {
    if (litGangs.peek() === undefined && this.#focus === undefined) return false;
    if (litGangs.peek() !== undefined) chooseGang(undefined);
    else this.#setFocus(undefined);
    this.pointed.value = undefined;
    this.light(undefined);
    this.#planUrl();
    return true;
  }

  #setFocus(position: number | undefined): void {
    this.#focus = position;
    this.#map.setFocus(position);
    this.#frames.plan();
  }

  #revealFocus(): void {
    const tile = this.#focus === undefined ? undefined : this.#tile(this.#focus);
    // A link to a node shows it with its name, unless the link has a view of its own.
    if (tile !== undefined && query.peek().get("zoom") === null) this.#camera.glideTo(grown(tile, 3), SHOWN_SCALE, undefined);
  }

  #firstVisible(): number {
    return this.#map.hit({ x: this.#window.width / 2, y: this.#window.height / 2 })?.position ?? 0;
  }

  #focusPoint(): Point | undefined {
    const tile = this.#focus === undefined ? undefined : this.#map.windowTile(this.#focus);
    if (tile === undefined) return undefined;
    const point = { x: tile.x + tile.width / 2, y: tile.y + tile.height / 2 };
    const isVisible = point.x >= 0 && point.y >= 0 && point.x <= this.#window.width && point.y <= this.#window.height;
    return isVisible ? point : undefined;
  }

  #tile(position: number): Rect | undefined {
    return this.#scene === undefined ? undefined : tileOf(this.#scene.layout, position);
  }
}

function grown(tile: Rect, times: number): Rect {
  const [dx, dy] = [TILE.width * times, TILE.height * times];
  return { x: tile.x - dx, y: tile.y - dy, width: tile.width + 2 * dx, height: tile.height + 2 * dy };
}
