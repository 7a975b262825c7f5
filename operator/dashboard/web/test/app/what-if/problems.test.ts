import { expect, test } from "vitest";

import { placeProblems } from "../../../src/app/what-if/problems";

test("each message stands at its change", () => {
  const { byChange, rest } = placeProblems(
    'spec.changes[1].removeNode.name: no node is named "x"; spec.changes[0].addNodes.count: must be 1 or more; spec.changes[1].removeNode.name: again',
    2,
  );
  expect([...byChange]).toEqual([
    [1, ['no node is named "x"', "again"]],
    [0, ["must be 1 or more"]],
  ]);
  expect(rest).toEqual([]);
});

test("a message of no change, or of a change that does not exist, is the rest", () => {
  expect(placeProblems("the body is too large", 2)).toEqual({ byChange: new Map(), rest: ["the body is too large"] });
  expect(placeProblems("spec.changes: at most 64 changes; spec.changes[7].removeNode.name: no", 2).rest).toEqual([
    "spec.changes: at most 64 changes",
    "spec.changes[7].removeNode.name: no",
  ]);
});

test("words of the API server before the first path are left out", () => {
  const { byChange, rest } = placeProblems('Forecast "" is invalid: spec.changes[0].removeNode.name: no node is named "x"', 1);
  expect([...byChange]).toEqual([[0, ['no node is named "x"']]]);
  expect(rest).toEqual([]);
});

test("a path inside a name does not end a message", () => {
  const { byChange } = placeProblems('spec.changes[0].removeNode.name: no node is named "spec.changes[1].x: y"', 2);
  expect([...byChange.keys()]).toEqual([0]);
});
