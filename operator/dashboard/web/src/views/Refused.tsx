import { useEffect } from "preact/hooks";

import { describeProblem } from "../app/live/problem-text";
import type { Problem } from "../app/live/store";
import { retryNow } from "../app/live/sync";
import { announce } from "../app/page/announce";
import { urls } from "../app/page/route";
import { useTitle } from "../app/page/title";
import { command } from "../app/text/shell-quote";
import { Command } from "../parts/Copy";
import { Text } from "../parts/Text";

/** The server refuses the user: no data are on the screen, and the page says what to do. */
export function Refused({ problem }: { readonly problem: Problem }) {
  const { title, text } = describeProblem(problem);
  const isKey = problem.kind === "key";
  useTitle(title);
  useEffect(() => announce(title), [title]);
  return (
    <div class="page page-text">
      <h1>{title}</h1>
      <p>
        <Text text={text} />
      </p>
      {isKey ? (
        <Command text={command("trellis", "dashboard", ...placeArgument())} />
      ) : (
        <p>The page asks again by itself. Data of the cluster are no longer on the screen.</p>
      )}
      <p>
        <button type="button" class="button" onClick={retryNow}>
          Try again
        </button>
      </p>
    </div>
  );
}

function placeArgument(): string[] {
  const place = location.pathname + location.search;
  return place === urls.home ? [] : [place];
}
