/** Colour and pattern of cells: by gang, queue, state or time left. */

import type { JobState } from "../../wire/cluster";
import { colourNumber } from "../base/gang";
import type { PatternName } from "../base/patterns";
import type { Theme } from "../base/theme";
import { timeStep } from "../base/time-left";
import type { CellRun, CellState } from "../node/cells";

/** Meaning of the colour of a cell. */
export type ColourBy = "gang" | "queue" | "state" | "time";

/** All values of {@link ColourBy}, in the order of the `c` key. */
export const COLOUR_BY: readonly ColourBy[] = ["gang", "queue", "state", "time"];

/** Reads a value of `?by=`. Any other text is `gang`. */
export function readColourBy(text: string | undefined): ColourBy {
  return COLOUR_BY.find((by) => by === text) ?? "gang";
}

/**
 * Pattern of each state. `running` has a full fill and `free` an empty one; every other state has a
 * pattern, so that states differ without colour.
 */
export const STATE_PATTERNS: Readonly<Record<CellState, PatternName | undefined>> = {
  running: undefined,
  starting: "bars",
  stopping: "falling",
  other: "hatch",
  kept: "dots",
  free: undefined,
  blocked: "crosses",
};

/** Jobs and time that colours depend on. */
export interface LookContext {
  readonly by: ColourBy;
  readonly jobs: ReadonlyMap<string, JobState>;
  /** Time now, in milliseconds. */
  readonly now: number;
}

/**
 * Returns a short text that changes when the colour of a run changes. It lets the map redraw only
 * the nodes whose look changed.
 */
export function fillKey(run: CellRun, context: LookContext): string {
  if (run.gang === undefined || run.state === "other" || context.by === "gang") return "";
  if (context.by === "queue") return context.jobs.get(run.gang)?.queue ?? "";
  if (context.by === "time") return String(timeStep(context.jobs.get(run.gang)?.expectedEnd, context.now));
  return "";
}

/** Returns the fill colour of a run, or undefined for devices that are free. */
export function fillOf(run: CellRun, context: LookContext, theme: Theme): string | undefined {
  if (run.state === "free" || run.state === "blocked") return undefined;
  if (run.state === "other") return theme.other;
  if (context.by === "state") return stateFill(run.state, theme);
  if (run.gang === undefined) return theme.unknown;
  return gangFill(run.gang, context, theme);
}

/** Returns the colour of a gang's devices. */
export function gangFill(gang: string, context: LookContext, theme: Theme): string {
  switch (context.by) {
    case "gang":
      return theme.gangs[colourNumber(gang)] ?? theme.unknown;
    case "queue": {
      const queue = context.jobs.get(gang)?.queue;
      return queue === undefined ? theme.unknown : queueFill(queue, theme);
    }
    case "time": {
      const step = timeStep(context.jobs.get(gang)?.expectedEnd, context.now);
      return step === undefined ? theme.unknown : (theme.times[step] ?? theme.unknown);
    }
    case "state":
      return theme.running;
  }
}

/** Returns the colour of a queue. */
export function queueFill(queue: string, theme: Theme): string {
  return theme.gangs[colourNumber(queue)] ?? theme.unknown;
}

function stateFill(state: CellState, theme: Theme): string {
  switch (state) {
    case "starting":
      return theme.starting;
    case "stopping":
      return theme.stopping;
    case "kept":
      return theme.kept;
    default:
      return theme.running;
  }
}
