/** Time across a drawing: places, zoom, pan, and marks of the axis. Pure. Times are milliseconds since 1970. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The visible time, relative to now: it moves on with the clock. In milliseconds. */
export interface TimeWindow {
  /** Visible time before now. Negative: the window begins after now. */
  readonly back: number;
  /** Visible time after now. Negative: the window ends before now. */
  readonly ahead: number;
}

/** A strip of a drawing that shows time. */
export interface TimeScale {
  readonly window: TimeWindow;
  /** Time now. */
  readonly now: number;
  /** Left edge and width of the strip, in pixels. */
  readonly left: number;
  readonly width: number;
}

/** A mark of the axis. */
export interface Tick {
  readonly at: number;
  readonly label: string;
  /** True for the beginning of a day. */
  readonly isDay: boolean;
}

/** Shortest and longest visible time. */
const SHORTEST = 5 * MINUTE;
const LONGEST = 60 * DAY;

/** Greatest distance of the window from now. */
const FARTHEST = 90 * DAY;

/** Least distance between two marks, in CSS pixels. */
const TICK_PIXELS = 72;

const STEPS: readonly number[] = [
  MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
  HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY,
];

/** Returns the place of a time, in pixels. */
export function placeOf(scale: TimeScale, at: number): number {
  const { window, now, left, width } = scale;
  return left + ((at - now + window.back) / (window.back + window.ahead)) * width;
}

/** Returns the time at a place, which is in pixels. */
export function timeAt(scale: TimeScale, place: number): number {
  const { window, now, left, width } = scale;
  return now - window.back + ((place - left) / width) * (window.back + window.ahead);
}

/** Returns the window zoomed by a factor. The time at a part of its length, from 0 to 1, stays where it is. */
export function zoomTime(window: TimeWindow, part: number, factor: number): TimeWindow {
  const length = window.back + window.ahead;
  const next = Math.min(Math.max(length / factor, SHORTEST), LONGEST);
  const fixed = part * length - window.back;
  return limit({ back: part * next - fixed, ahead: (1 - part) * next + fixed });
}

/** Returns the window moved by a part of its length. Positive parts move towards the future. */
export function panTime(window: TimeWindow, part: number): TimeWindow {
  const shift = part * (window.back + window.ahead);
  return limit({ back: window.back - shift, ahead: window.ahead + shift });
}

function limit(window: TimeWindow): TimeWindow {
  const length = window.back + window.ahead;
  const back = Math.min(Math.max(window.back, length - FARTHEST), FARTHEST);
  return { back, ahead: length - back };
}

/** Returns the window of a timeline that is opened: 24 hours back, and ahead to most of the known ends. */
export function openingWindow(ends: readonly number[], now: number): TimeWindow {
  const sorted = ends.filter((end) => end > now).sort((a, b) => a - b);
  const most = sorted[Math.floor((sorted.length - 1) * 0.9)] ?? now;
  const ahead = Math.ceil((most - now) / (6 * HOUR)) * 6 * HOUR;
  return { back: DAY, ahead: Math.min(Math.max(ahead, 6 * HOUR), 2 * DAY) };
}

/** Returns the marks of the axis, at whole hours and days of the local time zone. */
export function ticksOf(scale: TimeScale, pixels = TICK_PIXELS): readonly Tick[] {
  const length = scale.window.back + scale.window.ahead;
  const step = STEPS.find((candidate) => (candidate / length) * scale.width >= pixels) ?? LONGEST;
  const [first, last] = [scale.now - scale.window.back, scale.now + scale.window.ahead];
  const ticks: Tick[] = [];
  for (let at = startOfStep(first, step); at <= last; at = nextStep(at, step)) {
    if (at >= first) ticks.push(tickAt(at, step));
  }
  return ticks;
}

function startOfStep(at: number, step: number): number {
  const day = new Date(at);
  day.setHours(0, 0, 0, 0);
  return day.getTime() + Math.floor((at - day.getTime()) / step) * step;
}

/** Days have 23 or 25 hours twice a year: steps of a day and more go by the calendar. */
function nextStep(at: number, step: number): number {
  const next = new Date(at + step);
  if (step < DAY) {
    const midnight = new Date(at);
    midnight.setHours(24, 0, 0, 0);
    return Math.min(at + step, midnight.getTime() > at ? midnight.getTime() : at + step);
  }
  next.setTime(at + step + 12 * HOUR);
  next.setHours(0, 0, 0, 0);
  return next.getTime();
}

function tickAt(at: number, step: number): Tick {
  const date = new Date(at);
  const isDay = date.getHours() === 0 && date.getMinutes() === 0;
  const pad = (value: number): string => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  const label = isDay || step >= DAY ? day.slice(5) : `${pad(date.getHours())}:${pad(date.getMinutes())}`;
  return { at, label, isDay };
}

/** Writes a time of the window for the URL, in hours: `-24h`, `1.5h`. */
export function writeHours(milliseconds: number): string {
  return `${Math.round((milliseconds / HOUR) * 100) / 100}h`;
}

/** Reads a time in minutes, hours or days: `-24h`, `90m`, `2d`. Returns undefined for any other text. */
export function readHours(text: string | undefined): number | undefined {
  const match = /^(-?\d{1,6}(?:\.\d{1,4})?)([mhd])$/.exec(text ?? "");
  const unit = { m: MINUTE, h: HOUR, d: DAY }[match?.[2] ?? ""];
  return match === null || unit === undefined ? undefined : Number(match[1]) * unit;
}

/** Reads a window from the texts of its ends, which are relative to now. Returns undefined unless it has a length. */
export function readWindow(from: string | undefined, to: string | undefined): TimeWindow | undefined {
  const [first, last] = [readHours(from), readHours(to)];
  if (first === undefined || last === undefined || last - first < SHORTEST || last - first > LONGEST) return undefined;
  return limit({ back: -first, ahead: last });
}
