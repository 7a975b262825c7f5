/** The page What if without markup: its changes, which the URL keeps, and the forecast of them. */

import { computed } from "@preact/signals";

import type { ForecastChange, ForecastSpec, ForecastStatus } from "../../wire/forecast";
import { showToast } from "../page/announce";
import { query, setQuery } from "../page/route";
import { Question } from "../question/question";
import { post } from "../server/request";
import { MAX_CHANGES, MAX_TEXT, isUnfinished, readChanges, writeChanges } from "./changes";
import { summarizeForecast } from "./moved-jobs";
import { describeForecastFailure } from "./problems";

/** The changes of the URL, or its problem. */
export const written = computed(() => readChanges(query.value.get("changes")));

/** The changes as text, to compare them with those of the last forecast. */
export const text = computed(() => writeChanges(written.value.changes) ?? "");

const question = new Question<{ readonly asked: string }, ForecastStatus>({
  start: "The scheduler looks ahead",
  describeAnswer: summarizeForecast,
  describeFailure: describeForecastFailure,
});

/** How the last forecast has ended. `asked` is the text of its changes. */
export type Outcome = NonNullable<typeof question.outcome.value>;

/** How the last forecast has ended, and whether the scheduler is asked. */
export const { outcome, isAsking } = question;

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
  if (changes.length === 0) return;
  const spec: ForecastSpec = { changes };
  await question.ask({ asked: text.peek() }, (signal) => post("/api/what-if", spec, signal));
}

/** Asks once for the changes with which the page was opened. */
export function askAtOpening(): void {
  if (outcome.peek()?.asked === text.peek() || written.peek().changes.some(isUnfinished)) return;
  void askForecast();
}
