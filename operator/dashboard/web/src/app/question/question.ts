/** A question that the user asks the server by a press of a button, and how the last one has ended. */

import { computed, effect, signal } from "@preact/signals";

import type { WireError } from "../../wire/cluster";
import type { ProblemText } from "../live/problem-text";
import { refusal, refuse } from "../live/store";
import { announce } from "../page/announce";
import { serverTime } from "../server/clock";
import { toRequestError } from "../server/request";

/** How a question has ended. `About` identifies the question. */
export type Ended<About extends object, Answer> = About &
  ({ readonly answer: Answer } | { readonly error: WireError; readonly since: Date });

/** What a screen reader hears. */
interface Announcements<Answer> {
  /** Said at the start. */
  readonly start: string;
  readonly describeAnswer: (answer: Answer) => string;
  readonly describeFailure: (error: WireError, since: Date) => ProblemText;
}

export class Question<About extends object, Answer> {
  /** How the last question has ended. Undefined: there was none. */
  readonly outcome = signal<Ended<About, Answer> | undefined>(undefined);

  private readonly running = signal<AbortController | undefined>(undefined);

  /** True while the server is asked. */
  readonly isAsking = computed(() => this.running.value !== undefined);

  private readonly announcements: Announcements<Answer>;

  constructor(announcements: Announcements<Answer>) {
    this.announcements = announcements;
    // A refused user must not go on reading what the cluster has answered.
    effect(() => {
      if (!refusal.value) return;
      this.outcome.value = undefined;
      this.running.peek()?.abort();
    });
  }

  /** Asks the server, unless it is being asked. */
  async ask(about: About, send: (signal: AbortSignal) => Promise<Answer>): Promise<void> {
    if (this.running.peek()) return;
    const abort = new AbortController();
    this.running.value = abort;
    announce(this.announcements.start);
    try {
      const answer = await send(abort.signal);
      if (abort.signal.aborted) return;
      this.outcome.value = { ...about, answer };
      announce(this.announcements.describeAnswer(answer));
    } catch (thrown) {
      if (!abort.signal.aborted) this.fail(about, thrown);
    } finally {
      if (this.running.peek() === abort) this.running.value = undefined;
    }
  }

  /** Ends the question that is being asked. The last outcome stays. Returns false if there is none. */
  cancel(): boolean {
    const abort = this.running.peek();
    if (!abort) return false;
    abort.abort();
    this.running.value = undefined;
    return true;
  }

  /** Shows a failure in the place of an answer. */
  report(about: About, error: WireError): void {
    const since = serverTime();
    this.outcome.value = { ...about, error, since };
    announce(this.announcements.describeFailure(error, since).title);
  }

  private fail(about: About, thrown: unknown): void {
    const error = toRequestError(thrown);
    if (error.kind === "key" || error.kind === "unauthorized") refuse(error);
    else this.report(about, error);
  }
}
