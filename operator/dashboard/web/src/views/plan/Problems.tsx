import { countOf } from "../../app/text/format";
import { Card } from "../../parts/Card";
import { Text } from "../../parts/Text";
import type { PlanProblem } from "../../wire/plan";

/** All problems of the text. A click on one puts the cursor of the text area on its place. */
export function Problems(props: {
  readonly problems: readonly PlanProblem[];
  readonly onPlace: (line: number, column: number) => void;
}) {
  return (
    <Card title={countOf(props.problems.length, "problem")} aside="nothing was planned">
      <ol class="problems">
        {props.problems.map((problem, place) => (
          <Problem key={place} problem={problem} onPlace={() => props.onPlace(problem.line, problem.column)} />
        ))}
      </ol>
    </Card>
  );
}

function Problem({ problem, onPlace }: { readonly problem: PlanProblem; readonly onPlace: () => void }) {
  const hasPlace = problem.line > 0;
  return (
    <li
      class={hasPlace ? "problem has-place" : "problem"}
      onClick={() => {
        // A user who selects text of the problem wants to copy it.
        if (hasPlace && getSelection()?.isCollapsed !== false) onPlace();
      }}
    >
      <p class="problem-place">
        {hasPlace ? (
          <button
            type="button"
            class="more"
            onClick={(event) => {
              event.stopPropagation();
              onPlace();
            }}
          >
            {`line ${problem.line}, column ${problem.column}`}
          </button>
        ) : (
          "the whole text"
        )}
        {problem.field && (
          <code>
            <Text text={problem.field} max={200} />
          </code>
        )}
      </p>
      <p>
        <Text text={problem.message} max={2_000} />
      </p>
      {problem.snippet && (
        <pre class="problem-snippet" tabIndex={0} aria-label="The line, with a mark below the column">
          <Text text={problem.snippet} max={4_000} lines />
        </pre>
      )}
    </li>
  );
}
