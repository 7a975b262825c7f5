import type { Polled } from "../../app/live/poll";
import { describeProblem } from "../../app/live/problem-text";
import { Banner } from "../../parts/Banner";
import { Text } from "../../parts/Text";
import type { PoliciesAnswer } from "../../wire/policy";

/** Policies that the page does not show, and data that are old. */
export function PolicyNotes({ answer, problem }: Polled<PoliciesAnswer>) {
  return (
    <>
      {answer && problem && (
        <Banner tone="warning" title="The policies are old">
          <Text text={describeProblem(problem).text} max={1_000} />
        </Banner>
      )}
      {answer && answer.notes.length > 0 && (
        <Banner tone="info" title="Not everything is shown">
          {answer.notes.map((note) => (
            <div key={note}>
              <Text text={note} max={1_000} />
            </div>
          ))}
        </Banner>
      )}
    </>
  );
}
