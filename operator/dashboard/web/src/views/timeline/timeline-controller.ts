/** Connects the drawing of the timeline with the pointer, the keyboard, the URL and the clock of frames. */

import { signal } from "@preact/signals";

import { announce } from "../../app/page/announce";
import { navigate, setQuery, urls } from "../../app/page/route";
import { FramePlanner } from "../../draw/base/frames";
import { gangOfKey } from "../../draw/base/gang";
import { type Point, type Size, contains } from "../../draw/base/geometry";
import { listenToGestures, wheelFactor, wheelPixels } from "../../draw/base/gestures";
import type { Theme } from "../../draw/base/theme";
import { ZOOM_STEP } from "../../draw/map/zoom";
import { curveAt, type Curve } from "../../draw/timeline/free-curve";
import { attemptAt } from "../../draw/timeline/past-runs";
import { rowOfJob, stepRow, type JobRow, type TimelineRows } from "../../draw/timeline/rows";
import type { TimelineScene } from "../../draw/timeline/scene";
import { panTime, writeHours, zoomTime, type TimeWindow } from "../../draw/timeline/time-scale";
import { Timeline } from "../../draw/timeline/timeline";
import type { EndedAttempt } from "../../wire/attempt";
import { describeRow } from "./describe-job";
import { firstWindow } from "./model";

/** Time after the last move after which the URL takes the window, in milliseconds. */
const SETTLE_MS = 350;

/** Part of the window by which the arrow keys move it. */
const KEY_PAN = 1 / 8;

/** Distance within which the pointer reaches an ended attempt, in CSS pixels: most are narrow. */
const REACH = 6;

/** A row at the pointer, or a place of the curve. */
export interface PointedPlace {
  /** The job at the pointer. Absent: the pointer is at the curve. */
  readonly row: JobRow | undefined;
  /** The ended attempt at the pointer. */
  readonly ended: EndedAttempt | undefined;
  /** GPUs of the curve at the pointer. Absent: the pointer is at a row, or before now. */
  readonly gpus: number | undefined;
  /** Place of the pointer, in CSS pixels. */
  readonly at: Point;
  /** Time at the pointer, in milliseconds. Absent: the labels. */
  readonly time: number | undefined;
}

/** The timeline on a canvas and what moves it. */
export class TimelineController {
  /** The job or curve at the pointer. */
  readonly pointed = signal<PointedPlace | undefined>(undefined);
  /** The chosen job. */
  readonly chosen = signal<string | undefined>(undefined);
  /** The row of the chosen job. */
  readonly chosenRow = signal<JobRow | undefined>(undefined);
  readonly #timeline: Timeline;
  readonly #frames = new FramePlanner(() => this.#timeline.draw(this.#scene));
  readonly #stopGestures: () => void;
  #settle: ReturnType<typeof setTimeout> | undefined;
  #isMoved = false;
  #scene: TimelineScene;

  constructor(canvas: HTMLCanvasElement, rows: TimelineRows, curve: Curve, now: number, window: TimeWindow | undefined) {
    this.#timeline = new Timeline(canvas);
    this.#isMoved = window !== undefined;
    this.#scene = { rows, curve, now, window: window ?? firstWindow(), scroll: 0, focus: undefined, hover: undefined };
    this.#stopGestures = listenToGestures(canvas, {
      pan: (dx, dy) => this.#pan(dx, dy),
      zoom: (at, factor) => this.#zoomAt(at, factor),
      wheel: (event, at) => this.#wheel(event, at),
      point: (at) => this.#point(at),
      click: (at) => this.#click(at),
      doubleClick: () => this.#open(),
    });
  }

  /** Stops everything. */
  stop(): void {
    this.#stopGestures();
    this.#frames.cancel();
    clearTimeout(this.#settle);
  }

  /** Sets the size of the window in CSS pixels, and the device pixels for each of them. */
  resize(window: Size, ratio: number): void {
    this.#timeline.resize(window, ratio);
    this.#change({ scroll: this.#limitScroll(this.#scene.scroll) });
  }

  /** Sets the colours. */
  setTheme(theme: Theme): void {
    this.#timeline.setTheme(theme);
    this.#frames.plan();
  }

  /** Sets the rows. The focused job keeps its focus. */
  setRows(rows: TimelineRows): void {
    const focus = rowOfJob(rows, this.chosen.peek());
    const row = focus === undefined ? undefined : rows.rows[focus];
    this.chosenRow.value = row?.kind === "job" ? row : undefined;
    this.#change({ rows, focus, hover: undefined });
    this.#change({ scroll: this.#limitScroll(this.#scene.scroll) });
  }

  /** Sets the curve and the time. */
  setTime(curve: Curve, now: number): void {
    this.#change({ curve, now });
  }

  /** Follows the window of the URL, after Back or a link. */
  followUrl(window: TimeWindow | undefined): void {
    if (this.#settle !== undefined || (window === undefined && !this.#isMoved)) return;
    this.#isMoved = window !== undefined;
    this.#change({ window: window ?? firstWindow() });
  }

  /** Zooms around now, or around the middle if now is not visible. */
  zoom(factor: number): void {
    const { back, ahead } = this.#scene.window;
    const part = back / (back + ahead);
    this.#setWindow(zoomTime(this.#scene.window, part > 0 && part < 1 ? part : 0.5, factor));
  }

  /** Goes back to the window that the timeline opens with. */
  reset(): void {
    this.#isMoved = false;
    this.#change({ window: firstWindow() });
    this.#planUrl();
  }

  /** Handles a key of the focused timeline. Returns false for a key that it does not use. */
  key(event: KeyboardEvent): boolean {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const page = Math.max(Math.floor(this.#timeline.frame.rows.height / 22) - 2, 1);
    switch (event.key) {
      case "ArrowUp":
        return this.#walk(-1);
      case "ArrowDown":
        return this.#walk(1);
      case "PageUp":
        return this.#walk(-page);
      case "PageDown":
        return this.#walk(page);
      case "Home":
        return this.#walk(-this.#scene.rows.rows.length);
      case "End":
        return this.#walk(this.#scene.rows.rows.length);
      case "ArrowLeft":
        return this.#setWindow(panTime(this.#scene.window, -KEY_PAN));
      case "ArrowRight":
        return this.#setWindow(panTime(this.#scene.window, KEY_PAN));
      case "Enter":
        return this.#open();
      case "Escape":
        return this.#choose(undefined);
      default:
        return false;
    }
  }

  /** Zooms by a step of the keys. */
  step(sign: 1 | -1): void {
    this.zoom(ZOOM_STEP ** sign);
  }

  /** Ends the choice of a job. */
  endChoice(): void {
    this.#choose(undefined);
  }

  #change(change: Partial<TimelineScene>): void {
    this.#scene = { ...this.#scene, ...change };
    this.#frames.plan();
  }

  #setWindow(window: TimeWindow): true {
    this.#isMoved = true;
    this.#change({ window });
    this.#planUrl();
    return true;
  }

  /** Writes the window into the URL once the user pauses: browsers limit how often it may change. */
  #planUrl(): void {
    clearTimeout(this.#settle);
    this.#settle = setTimeout(() => {
      this.#settle = undefined;
      const { back, ahead } = this.#scene.window;
      setQuery({ from: this.#isMoved ? writeHours(-back) : undefined, to: this.#isMoved ? writeHours(ahead) : undefined });
    }, SETTLE_MS);
  }

  #pan(dx: number, dy: number): void {
    const scroll = this.#limitScroll(this.#scene.scroll - dy);
    this.#change({ scroll });
    if (dx !== 0) this.#setWindow(panTime(this.#scene.window, -dx / this.#timeline.frame.bars.width));
  }

  #zoomAt(at: Point, factor: number): void {
    const { bars } = this.#timeline.frame;
    const part = Math.min(Math.max((at.x - bars.x) / bars.width, 0), 1);
    this.#setWindow(zoomTime(this.#scene.window, part, factor));
  }

  /** Turns scroll the rows, with Shift they move time, and with Control, as a pinch, they zoom. */
  #wheel(event: WheelEvent, at: Point): boolean {
    const pixels = wheelPixels(event);
    if (event.ctrlKey) this.#zoomAt(at, wheelFactor(event));
    else if (event.shiftKey || Math.abs(pixels.x) > Math.abs(pixels.y)) this.#pan(-(pixels.x || pixels.y), 0);
    else {
      const scroll = this.#limitScroll(this.#scene.scroll + pixels.y);
      if (scroll === this.#scene.scroll) return false;
      this.#change({ scroll });
    }
    this.#point(at);
    return true;
  }

  #point(at: Point | undefined): void {
    const hit = at === undefined ? undefined : this.#timeline.hit(this.#scene, at);
    const found = hit?.row === undefined ? undefined : this.#scene.rows.rows[hit.row];
    const row = found?.kind === "job" ? found : undefined;
    const isCurve = at !== undefined && hit?.at !== undefined && contains(this.#timeline.frame.curve, at);
    const gpus = isCurve && hit?.at !== undefined ? curveAt(this.#scene.curve, hit.at) : undefined;
    const ended = row && hit?.at !== undefined ? attemptAt(row.past, hit.at, this.#reach()) : undefined;
    this.pointed.value = at !== undefined && (row !== undefined || gpus !== undefined) ? { row, ended, gpus, at, time: hit?.at } : undefined;
    const hover = row === undefined ? undefined : hit?.row;
    if (hover !== this.#scene.hover) this.#change({ hover });
  }

  /** Returns the time within which the pointer reaches an attempt, in milliseconds. */
  #reach(): number {
    const { back, ahead } = this.#scene.window;
    return (REACH / this.#timeline.frame.bars.width) * (back + ahead);
  }

  #click(at: Point): void {
    const { row } = this.#timeline.hit(this.#scene, at);
    this.#choose(row);
  }

  #choose(index: number | undefined): true {
    const row = index === undefined ? undefined : this.#scene.rows.rows[index];
    const isJob = row?.kind === "job";
    this.chosen.value = isJob ? row.key : undefined;
    this.chosenRow.value = isJob ? row : undefined;
    this.#change({ focus: isJob ? index : undefined });
    return true;
  }

  #walk(step: number): true {
    const index = stepRow(this.#scene.rows, this.#scene.focus, step);
    const row = index === undefined ? undefined : this.#scene.rows.rows[index];
    if (index === undefined || row?.kind !== "job") return true;
    this.#choose(index);
    this.#reveal(index);
    announce(describeRow(row, new Date(this.#scene.now)));
    return true;
  }

  #reveal(index: number): void {
    const [top = 0, bottom = 0] = this.#scene.rows.tops.slice(index, index + 2);
    const room = this.#timeline.frame.rows.height;
    const scroll = Math.min(Math.max(this.#scene.scroll, bottom - room + 8), top - 8);
    this.#change({ scroll: this.#limitScroll(scroll) });
  }

  #open(): boolean {
    const key = this.chosen.peek();
    if (key === undefined) return false;
    navigate(urls.job(gangOfKey(key)));
    return true;
  }

  #limitScroll(scroll: number): number {
    return Math.min(Math.max(scroll, 0), this.#timeline.scrollRoom(this.#scene.rows));
  }
}
