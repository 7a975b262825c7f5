/** Colours and font of the canvases, read from the tokens of `style/drawing.css` at run time. */

import { GANG_COLOURS } from "./gang";
import { TIME_STEPS } from "./time-left";

/** Colours as CSS colours, and the font. */
export interface Theme {
  /** Ground of the map, and of patterns. */
  readonly ground: string;
  /** Boxes of domains, from the outermost; deeper boxes repeat the last. */
  readonly boxes: readonly string[];
  readonly boxLine: string;
  readonly ink: string;
  readonly faint: string;
  /** Ground and border of a tile. */
  readonly tile: string;
  readonly line: string;
  /** Border of a tile with some free devices. */
  readonly partly: string;
  readonly other: string;
  readonly freeLine: string;
  readonly bad: string;
  readonly reserved: string;
  /** Devices that are kept, where the colour shows the state. */
  readonly kept: string;
  readonly focus: string;
  /** Covers what a lens or a chosen gang dims; partly transparent. */
  readonly veil: string;
  /** Nodes that match the fit lens. */
  readonly fits: string;
  /** Devices of jobs whose queue or end is unknown. */
  readonly unknown: string;
  readonly running: string;
  readonly starting: string;
  readonly stopping: string;
  /** Colours of gangs and queues, by colour number. */
  readonly gangs: readonly string[];
  /** Colours of the steps of time left, from the shortest. */
  readonly times: readonly string[];
  /** Font families. */
  readonly font: string;
}

/** Reads the value of a token, such as `--map-ground`. */
export type TokenReader = (token: string) => string;

/** Returns the theme of an element. The tokens are registered colours, so each value is resolved. */
export function themeOf(element: Element): Theme {
  const style = getComputedStyle(element);
  return buildTheme((token) => style.getPropertyValue(token).trim(), style.fontFamily);
}

/** Returns the theme of a set of tokens. */
export function buildTheme(read: TokenReader, font: string): Theme {
  return {
    ground: read("--map-ground"),
    boxes: [read("--map-box-1"), read("--map-box-2"), read("--map-box-3")],
    boxLine: read("--map-box-line"),
    ink: read("--map-ink"),
    faint: read("--map-faint"),
    tile: read("--map-tile"),
    line: read("--map-line"),
    partly: read("--map-partly"),
    other: read("--map-other"),
    freeLine: read("--map-free-line"),
    bad: read("--map-bad"),
    reserved: read("--map-reserved"),
    kept: read("--map-kept"),
    focus: read("--map-focus"),
    veil: read("--map-veil"),
    fits: read("--map-fits"),
    unknown: read("--map-unknown"),
    running: read("--map-running"),
    starting: read("--map-starting"),
    stopping: read("--map-stopping"),
    gangs: Array.from({ length: GANG_COLOURS }, (_, index) => read(`--map-gang-${index}`)),
    times: TIME_STEPS.map((_, index) => read(`--map-time-${index}`)),
    font: font === "" ? "sans-serif" : font,
  };
}
