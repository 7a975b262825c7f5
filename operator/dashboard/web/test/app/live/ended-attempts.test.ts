import { expect, test } from "vitest";

import { describeAttemptsProblem } from "../../../src/app/live/ended-attempts";

const problem = { kind: "unavailable", message: "no scheduler\u202e answers\nnow", since: new Date(0) };
const answer = { time: "2026-01-01T00:00:00Z", attempts: [] };

test("a failure says whether ended attempts are old or not known, on one line", () => {
  expect(describeAttemptsProblem({ answer: undefined, problem: undefined })).toBeUndefined();
  expect(describeAttemptsProblem({ answer, problem })).toBe("Ended attempts are old: No scheduler answers now.");
  expect(describeAttemptsProblem({ answer: undefined, problem })).toBe(
    "Ended attempts are not known: No scheduler answers now. An older operator does not remember them.",
  );
});
