import type { Polled } from "../../app/live/poll";
import { describeProblem } from "../../app/live/problem-text";
import { Text } from "../../parts/Text";

/** Why no policy could be read. */
export function PolicyProblem({ problem }: { readonly problem: NonNullable<Polled<unknown>["problem"]> }) {
  const { title, text } = describeProblem(problem);
  return (
    <div class="page-text">
      <h2>{title}</h2>
      <p>
        <Text text={text} max={2_000} />
      </p>
    </div>
  );
}
