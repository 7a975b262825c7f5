/** How a phase looks: its tone, as in the command line, and its icon. Pure. */

import type { IconName } from "./icons";

/** The meaning of a state, which selects its colour. */
export type Tone = "good" | "waiting" | "starting" | "bad" | "still";

/** Tone and icon of a phase. Two phases with one tone have different icons. */
export interface PhaseLook {
  readonly tone: Tone;
  readonly icon: IconName;
}

const LOOKS: Readonly<Record<string, PhaseLook>> = {
  Running: { tone: "good", icon: "play" },
  Complete: { tone: "good", icon: "check" },
  Queued: { tone: "waiting", icon: "clock" },
  Waiting: { tone: "waiting", icon: "dots" },
  Starting: { tone: "starting", icon: "half" },
  Restarting: { tone: "starting", icon: "restart" },
  Blocked: { tone: "bad", icon: "stop" },
  Refused: { tone: "bad", icon: "ban" },
  Failed: { tone: "bad", icon: "cross" },
  Suspended: { tone: "still", icon: "pause" },
};

/** Returns the look of a phase. A word that this page does not know is shown as it is. */
export function phaseLook(phase: string): PhaseLook {
  return Object.hasOwn(LOOKS, phase) ? (LOOKS[phase] ?? UNKNOWN) : UNKNOWN;
}

const UNKNOWN: PhaseLook = { tone: "still", icon: "help" };
