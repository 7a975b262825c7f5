/** What a problem means for the user, in words. Pure. */

import type { WireError } from "../../wire/cluster";
import { formatAge, formatClockSeconds } from "../text/format";
import type { Problem } from "./store";

/** A problem in words. */
export interface ProblemText {
  /** The fact. */
  readonly title: string;
  /** The cause and the fix, in the words of the server. */
  readonly text: string;
}

/** Describes why data are old or missing. */
export function describeProblem(problem: Pick<Problem, "kind" | "message" | "since">): ProblemText {
  const since = formatClockSeconds(problem.since);
  const text = asSentence(problem.message);
  switch (problem.kind) {
    case "key":
      return { title: "This page is locked", text };
    case "unauthorized":
      return { title: "The cluster refuses your credential", text };
    case "denied":
      return { title: "You may not see this", text };
    case "notFound":
      return { title: "Not found", text };
    case "unavailable":
      return {
        title: `The scheduler has not answered since ${since}`,
        text: `${text} Jobs that run go on.`,
      };
    case "busy":
      return { title: "The scheduler is busy", text };
    case "unreachable":
      return { title: `The cluster has not been reachable since ${since}`, text };
    case "silent":
      return { title: `Nothing has come from the server since ${since}`, text };
    case "offline":
      return {
        title: `The server of this page has not answered since ${since}`,
        text: "If you have stopped trellis dashboard, start it again and open the URL that it prints.",
      };
    default:
      return { title: `The data could not be read (${problem.kind})`, text };
  }
}

/** Describes why a question has no answer. `titles` has the fact for each kind of error that belongs to the question. */
export function describeFailure(titles: Readonly<Record<string, string>>, error: WireError, since: Date): ProblemText {
  const title = Object.hasOwn(titles, error.kind) ? titles[error.kind] : undefined;
  if (title === undefined) return describeProblem({ ...error, since });
  return { title, text: asSentence(error.message) };
}

/** Returns a message as a sentence: messages of the command line begin in lower case and have no full stop. */
export function asSentence(message: string): string {
  const begins = /^[a-z]+[ :,]/.test(message);
  const text = begins ? message.charAt(0).toUpperCase() + message.slice(1) : message;
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** Describes the next request, such as "asking again in 4s". */
export function describeRetry(problem: Pick<Problem, "retryAt">, now: Date): string {
  if (!problem.retryAt) return "";
  const isNow = problem.retryAt.getTime() <= now.getTime();
  return isNow ? "asking again now" : `asking again in ${formatAge(now, problem.retryAt)}`;
}
