/** The plan page without markup: its text, which this tab keeps, and the plan that is made of it. */

import { batch, computed, effect, signal } from "@preact/signals";

import type { WireError } from "../../wire/cluster";
import type { PlanAnswer, PlanRequest } from "../../wire/plan";
import { session } from "../live/store";
import { announce } from "../page/announce";
import { Question } from "../question/question";
import { RequestError, post } from "../server/request";
import { countOf } from "../text/format";
import { EXAMPLE, MAX_SIZE, fitsRequest } from "./draft";
import { describePlanFailure, summarizePlan } from "./words";

/** What the user has written. */
export interface Draft {
  readonly text: string;
  /** Namespace of jobs that name none. Undefined: the namespace of the context, if there is one. */
  readonly namespace: string | undefined;
}

const STORAGE_KEY = "trellis-plan";

/** Pause after the last key before the text is kept. */
const KEEP_MS = 300;

const EXAMPLE_DRAFT: Draft = { text: EXAMPLE, namespace: undefined };

/** What the user has written. */
export const draft = signal<Draft>(readDraft() ?? EXAMPLE_DRAFT);

/** The draft that another one has replaced, and what the other one is. */
export const replaced = signal<{ readonly draft: Draft; readonly by: string } | undefined>(undefined);

const question = new Question<{ readonly draft: Draft }, PlanAnswer>({
  start: "Planning",
  describeAnswer,
  describeFailure: describePlanFailure,
});

/** How the last plan has ended. */
export type Outcome = NonNullable<typeof question.outcome.value>;

/** How the last plan has ended, and whether one is made. */
export const { outcome, isAsking: isPlanning } = question;

/** The namespace of the kubeconfig's context. Empty: the page of a cluster has no kubeconfig. */
const contextNamespace = computed(() => (session.value?.mode === "local" ? session.value.namespace : ""));

/** The namespace of jobs that name none. Empty: each job must name one. */
export const namespace = computed(() => draft.value.namespace ?? contextNamespace.value);

/** Changes the text. */
export function setText(text: string): void {
  draft.value = { ...draft.peek(), text };
}

/** Changes the namespace. The one of the context is the default. */
export function setNamespace(name: string): void {
  draft.value = { ...draft.peek(), namespace: name === contextNamespace.peek() ? undefined : name };
}

/** Replaces the draft. `by` says what the new one is. The user can bring the old one back. */
export function replaceDraft(next: Draft, by: string): void {
  const before = draft.peek();
  const isWorthKeeping = before.text.trim() !== "" && before.text !== EXAMPLE && before.text !== next.text;
  batch(() => {
    replaced.value = isWorthKeeping ? { draft: before, by } : undefined;
    draft.value = next;
    outcome.value = undefined;
  });
  cancelPlan();
  keepDraft();
}

/** Puts the example into the text area. The namespace stays. */
export function showExample(): void {
  replaceDraft({ text: EXAMPLE, namespace: draft.peek().namespace }, "the example");
}

/** Brings the replaced draft back. */
export function bringBack(): void {
  const before = replaced.peek();
  if (before) replaceDraft(before.draft, "the earlier text");
}

/** Plans the jobs of the draft. */
export async function planDraft(): Promise<void> {
  const planned = draft.peek();
  const request = requestOf(planned);
  await question.ask({ draft: planned }, async (signal) => {
    if (!fitsRequest(request)) throw tooLarge("the text");
    return post("/api/plan", request, signal);
  });
}

/** Ends the plan that is being made. The last outcome stays. */
export function cancelPlan(): void {
  if (question.cancel()) announce("The plan was cancelled");
}

/** Shows a failure of the page itself in the place of an answer, such as a file that cannot be read. */
export function reportFailure(error: WireError): void {
  question.report({ draft: draft.peek() }, error);
}

/** A text or a file that the server would not read. */
export function tooLarge(what: string): RequestError {
  return new RequestError("invalid", `${what} is too large: this page plans at most ${MAX_SIZE}. Use \`trellis plan -f job.yaml\``);
}

function requestOf({ text, namespace: named }: Draft): PlanRequest {
  return named ? { namespace: named, yaml: text } : { yaml: text };
}

function describeAnswer(answer: PlanAnswer): string {
  const { length } = answer.problems;
  return length > 0 ? `${countOf(length, "problem")}: nothing was planned` : summarizePlan(answer.jobs);
}

function readDraft(): Draft | undefined {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "null");
    if (typeof stored !== "object" || stored === null || !("text" in stored)) return undefined;
    const { text } = stored;
    const named = "namespace" in stored ? stored.namespace : undefined;
    return typeof text === "string" ? { text, namespace: typeof named === "string" ? named : undefined } : undefined;
  } catch {
    return undefined;
  }
}

function keepDraft(): void {
  try {
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify(draft.peek()));
  } catch {
    // The text then lasts until the page is reloaded.
  }
}

/** Starts to keep the draft in sessionStorage. Returns the function that ends this. */
export function keepDrafts(): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let kept = draft.peek();
  const stop = effect(() => {
    const current = draft.value;
    clearTimeout(timer);
    if (current === kept) return;
    kept = current;
    timer = setTimeout(keepDraft, KEEP_MS);
  });
  addEventListener("pagehide", keepDraft);
  return () => {
    clearTimeout(timer);
    stop();
    removeEventListener("pagehide", keepDraft);
    keepDraft();
  };
}
