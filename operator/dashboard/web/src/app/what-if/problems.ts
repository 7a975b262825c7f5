/** Why there is no forecast: in words, and each message of a refused one at its change. Pure. */

import type { WireError } from "../../wire/cluster";
import { type ProblemText, describeFailure } from "../live/problem-text";

const TITLES: Readonly<Record<string, string>> = {
  notFound: "This server has no forecasts",
  busy: "The scheduler is busy with other forecasts",
  invalid: "These changes cannot be made",
  denied: "You may not ask for forecasts",
  unreachable: "The cluster could not be reached",
  unavailable: "No scheduler has answered",
  internal: "The forecast has failed",
};

/** Describes why there is no forecast. */
export function describeForecastFailure(error: WireError, since: Date): ProblemText {
  return describeFailure(TITLES, error, since);
}

/** Messages by the place of their change, and the messages of no change. */
export interface PlacedProblems {
  readonly byChange: ReadonlyMap<number, readonly string[]>;
  readonly rest: readonly string[];
}

const PATH = /spec\.changes\[(\d+)\](?:\.[A-Za-z0-9_.[\]-]+)?: /g;

/** Places the messages of `spec.changes[1].removeNode.name: no node is named "x"; ...`. */
export function placeProblems(message: string, count: number): PlacedProblems {
  const byChange = new Map<number, string[]>();
  const rest: string[] = [];
  const matches = [...message.matchAll(PATH)].filter(({ index }) => index === 0 || /(?:; |: |\n)$/.test(message.slice(0, index)));
  const before = trim(message.slice(0, matches[0]?.index ?? message.length));
  // The API server puts its own words before the first path.
  if (before !== "" && (matches.length === 0 || /;$/.test(message.slice(0, matches[0]?.index).trimEnd()))) rest.push(before);
  for (const [number, match] of matches.entries()) {
    const text = trim(message.slice(match.index + match[0].length, matches[number + 1]?.index ?? message.length));
    const place = Number(match[1]);
    if (place < count) byChange.set(place, [...(byChange.get(place) ?? []), text]);
    else rest.push(match[0] + text);
  }
  return { byChange, rest };
}

function trim(text: string): string {
  return text.trim().replace(/;$/, "").trim();
}
