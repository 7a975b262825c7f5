/** The jobs that changes move, in words and in order, as `trellis what-if` prints them. Pure. */

import type { ExpectedTimes, ForecastStatus, MovedJob } from "../../wire/forecast";
import type { IconName } from "../look/icons";
import type { Tone } from "../look/phases";
import { countOf, formatAge, formatCount, formatUntil } from "../text/format";

interface EffectLook {
  readonly word: string;
  readonly tone: Tone;
  readonly icon: IconName;
  /** The verb of the sum: for one job, and for several. */
  readonly verbs: readonly [string, string];
}

const EFFECTS: Readonly<Record<string, EffectLook>> = {
  Earlier: { word: "earlier", tone: "good", icon: "up", verbs: ["starts earlier", "start earlier"] },
  Later: { word: "later", tone: "waiting", icon: "down", verbs: ["starts later", "start later"] },
  Stops: { word: "stops", tone: "bad", icon: "stop", verbs: ["has to stop", "have to stop"] },
  Stays: { word: "stays", tone: "good", icon: "check", verbs: ["no longer has to stop", "no longer have to stop"] },
  OtherEnd: { word: "other end", tone: "still", icon: "swap", verbs: ["ends at another time", "end at another time"] },
  Added: { word: "added", tone: "starting", icon: "plus", verbs: ["is added", "are added"] },
  Removed: { word: "removed", tone: "still", icon: "minus", verbs: ["is removed", "are removed"] },
};

/** Returns the look of an effect. A word that this page does not know is shown as it is. */
export function effectLook(effect: string): EffectLook {
  const look = Object.hasOwn(EFFECTS, effect) ? EFFECTS[effect] : undefined;
  return look ?? { word: effect, tone: "still", icon: "help", verbs: [effect, effect] };
}

/** Sums up the answer: how many jobs the changes move, and how. */
export function summarizeForecast({ jobs, unmoved }: ForecastStatus): string {
  const effects = new Set([...Object.keys(EFFECTS), ...jobs.map(({ effect }) => effect)]);
  const parts: string[] = [];
  for (const effect of effects) {
    const count = jobs.filter((job) => job.effect === effect).length;
    const [one, many] = effectLook(effect).verbs;
    if (count > 0) parts.push(`${parts.length === 0 ? countOf(count, "job") : formatCount(count)} ${count === 1 ? one : many}`);
  }
  if (parts.length === 0) return `No job moves. ${countOf(unmoved, "job")} ${unmoved === 1 ? "starts" : "start"} and ${unmoved === 1 ? "ends" : "end"} as without the changes.`;
  return `${parts.join(", ")}; ${countOf(unmoved, "job")} ${unmoved === 1 ? "does" : "do"} not move.`;
}

/** Returns the jobs that move most first. */
export function sortMovedJobs(jobs: readonly MovedJob[]): MovedJob[] {
  return jobs
    .map((job) => ({ job, distance: distanceOf(job) }))
    .sort((a, b) => (a.distance === b.distance ? 0 : b.distance - a.distance))
    .map(({ job }) => job);
}

/** The moment that a change moves: the start, or the end of a job that has its place. */
function movedMoment(times: ExpectedTimes | undefined): number | undefined {
  const moment = Date.parse((times?.placed ? times.end : times?.start) ?? "");
  return Number.isNaN(moment) ? undefined : moment;
}

/** A job that gains or loses a known time moves farthest. */
function distanceOf({ before, after }: MovedJob): number {
  const [old, next] = [movedMoment(before), movedMoment(after)];
  if (old !== undefined && next !== undefined) return Math.abs(next - old);
  return old === next ? 0 : Number.POSITIVE_INFINITY;
}

/** Describes how far a job moves, such as `starts 2h earlier`. */
export function describeDifference({ before, after }: MovedJob): string {
  if (!before || !after) return "";
  if (before.placed && !after.placed) return after.start === undefined ? "loses its place, and has no known start" : "loses its place";
  const [old, next] = [movedMoment(before), movedMoment(after)];
  const noun = after.placed ? "end" : "start";
  if (old !== undefined && next !== undefined && old !== next) {
    const span = formatAge(new Date(Math.min(old, next)), new Date(Math.max(old, next)));
    return `${noun}s ${span} ${next < old ? "earlier" : "later"}`;
  }
  if (old !== undefined && next === undefined) return `has no known ${noun} any more`;
  if (old === undefined && next !== undefined) return `has a known ${noun}`;
  return "ends at another time";
}

/** Describes the start, seen from the time of the forecast. */
export function describeStart(times: ExpectedTimes | undefined, from: Date): string {
  if (!times) return "–";
  return times.placed ? "runs" : describeTime(times.start, from);
}

/** Describes the end, seen from the time of the forecast. */
export function describeEnd(times: ExpectedTimes | undefined, from: Date): string {
  if (!times) return "–";
  const end = describeTime(times.end, from);
  return times.stops && times.end !== undefined ? `${end}, makes room` : end;
}

function describeTime(time: string | undefined, from: Date): string {
  if (time === undefined) return "unknown";
  const span = formatUntil(time, from);
  return span === "now" ? span : `in ${span}`;
}
