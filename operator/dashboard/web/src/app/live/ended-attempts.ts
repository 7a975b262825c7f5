/** Reads the ended attempts while a view shows them. */

import type { AttemptsAnswer } from "../../wire/attempt";
import { cleanLine } from "../text/clean";
import { type Polled, usePolled } from "./poll";
import { asSentence } from "./problem-text";
import { session } from "./store";

/** Time between two reads. */
const EVERY_MS = 15_000;

/** Reads the attempts of a namespace, or of all of them. `trigger` is a value whose change asks for a read at once. */
export function useEndedAttempts(namespace: string | undefined, trigger?: unknown): Polled<AttemptsAnswer> {
  const suffix = namespace === undefined ? "" : `?namespace=${encodeURIComponent(namespace)}`;
  return usePolled<AttemptsAnswer>(session.value && `/api/attempts${suffix}`, EVERY_MS, trigger);
}

/** Says why ended attempts are old or missing. */
export function describeAttemptsProblem({ answer, problem }: Polled<AttemptsAnswer>): string | undefined {
  if (problem === undefined) return undefined;
  const cause = asSentence(cleanLine(problem.message));
  if (answer !== undefined) return `Ended attempts are old: ${cause}`;
  return `Ended attempts are not known: ${cause} An older operator does not remember them.`;
}
