import { Name, Text } from "../../parts/Text";
import { NodeLink } from "../../parts/links";
import type { LastFailure } from "../../wire/job";

/** The cause of a failed attempt, with the last line of its pod. */
export function FailureText({ failure }: { readonly failure: LastFailure }) {
  return (
    <>
      <Name text={failure.reason} />
      {failure.pod && (
        <>
          {" "}
          of <Name text={failure.pod} />
        </>
      )}
      {failure.node !== undefined && (
        <>
          {" "}
          on <NodeLink name={failure.node} />
        </>
      )}
      {failure.exitCode !== undefined && `, exit code ${failure.exitCode}`}
      {failure.lastLine && (
        <pre class="last-line">
          <Text text={failure.lastLine} max={1_000} lines />
        </pre>
      )}
    </>
  );
}
