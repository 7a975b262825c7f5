import { useEffect } from "preact/hooks";

import { describeProblem, describeRetry } from "../app/live/problem-text";
import type { Problem } from "../app/live/store";
import { retryNow } from "../app/live/sync";
import { announce } from "../app/page/announce";
import { now } from "../app/server/clock";
import { Name, Text } from "./Text";

/** The cause why data have never arrived, the next request, and a button. */
export function ProblemText({ problem }: { readonly problem: Problem }) {
  const text = describeProblem(problem);
  // The live region must not speak each second of the countdown.
  useEffect(() => announce(text.title), [text.title]);
  const retry = describeRetry(problem, now.value);
  return (
    <div class="page-text">
      <h2>{text.title}</h2>
      <p>
        <Text text={text.text} max={2_000} />
      </p>
      <p>
        <button type="button" class="button" onClick={retryNow}>
          Ask now
        </button>{" "}
        {retry && <span class="dim">{retry}</span>}
      </p>
    </div>
  );
}

/** A page whose data have never arrived. */
export function ListProblem({ title, problem }: { readonly title: string; readonly problem: Problem }) {
  return (
    <div class="page">
      <div class="page-head">
        <h1>
          <Name text={title} />
        </h1>
      </div>
      <ProblemText problem={problem} />
    </div>
  );
}
