/** The page What if without markup: its changes, which the URL keeps, and the forecast of them. */

import { computed, effect, signal } from "@preact/signals";

import type { WireError } from "../../wire/cluster";
import type { ForecastChange, ForecastSpec, ForecastStatus } from "../../wire/forecast";
import { type ProblemText, asSentence, describeProblem } from "../live/problem-text";
import { refusal, refuse } from "../live/store";
import { announce, showToast } from "../page/announce";
import { query, setQuery } from "../page/route";
import { serverTime } from "../server/clock";
import { RequestError, post } from "../server/request";
import { MAX_CHANGES, MAX_TEXT, isUnfinished, readChanges, writeChanges } from "./changes";
import { summarizeForecast } from "./moved-jobs";

/** How the last forecast has ended. `asked` is the text of its changes. */
export type Outcome = { readonly asked: string } & (
  | { readonly answer: ForecastStatus }
  | { readonly error: WireError; readonly since: Date }
);

/** The changes of the URL, or its problem. */
export const written = computed(() => readChanges(query.value.get("changes")));

/** The changes as text, to compare them with those of the last forecast. */
export const text = computed(() => writeChanges(written.value.changes) ?? "");

/** How the last forecast has ended. Undefined: there was none. */
export const outcome = signal<Outcome | undefined>(undefined);

const running = signal<AbortController | undefined>(undefined);

/** True while the scheduler is asked. */
export const isAsking = computed(() => running.value !== undefined);

/** Puts the changes into the URL, as a step of the history. Returns false if they do not fit. */
export function setChanges(changes: readonly ForecastChange[]): boolean {
  const next = writeChanges(changes);
  if (changes.length > MAX_CHANGES || (next?.length ?? 0) > MAX_TEXT) {
    showToast(`A forecast on this page has at most ${MAX_CHANGES} changes with ${MAX_TEXT} characters`);
    return false;
  }
  setQuery({ changes: next }, { step: true });
  return true;
}

/** Asks the scheduler what the changes do. */
export async function askForecast(): Promise<void> {
  const { changes } = written.peek();
  if (running.peek() || changes.length === 0) return;
  const asked = text.peek();
  const abort = new AbortController();
  running.value = abort;
  announce("The scheduler looks ahead");
  try {
    const spec: ForecastSpec = { changes };
    const answer = await post<ForecastStatus>("/api/what-if", spec, abort.signal);
    if (abort.signal.aborted) return;
    outcome.value = { asked, answer };
    announce(summarizeForecast(answer));
  } catch (thrown) {
    if (!abort.signal.aborted) fail(asked, thrown);
  } finally {
    if (running.peek() === abort) running.value = undefined;
  }
}

/** Asks once for the changes with which the page was opened. */
export function askAtOpening(): void {
  if (outcome.peek()?.asked === text.peek() || written.peek().changes.some(isUnfinished)) return;
  void askForecast();
}

function fail(asked: string, thrown: unknown): void {
  if (!(thrown instanceof RequestError)) console.error(thrown);
  const error = thrown instanceof RequestError ? thrown : new RequestError("internal", String(thrown));
  if (error.kind === "key" || error.kind === "unauthorized") {
    refuse(error);
    return;
  }
  const since = serverTime();
  outcome.value = { asked, error, since };
  announce(describeForecastFailure(error, since).title);
}

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
  const title = Object.hasOwn(TITLES, error.kind) ? TITLES[error.kind] : undefined;
  if (title === undefined) return describeProblem({ ...error, since });
  return { title, text: asSentence(error.message) };
}

// A refused user must not go on reading what the cluster has answered.
effect(() => {
  if (!refusal.value) return;
  outcome.value = undefined;
  running.peek()?.abort();
});
