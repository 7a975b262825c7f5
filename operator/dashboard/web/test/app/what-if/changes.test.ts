import { expect, test } from "vitest";

import { KINDS, MAX_CHANGES, MAX_TEXT, isUnfinished, kindOf, readChanges, writeChanges } from "../../../src/app/what-if/changes";
import type { ForecastChange } from "../../../src/wire/forecast";

const CHANGES: readonly ForecastChange[] = [
  { addNodes: { like: "gpu-0", count: 4, labels: { rack: "r9" } } },
  { removeNode: { name: "gpu-1" } },
  { cordonNode: { name: "gpu-1" } },
  { restoreNode: { name: "gpu-1" } },
  { changeQueue: { name: "research", quotas: [{ resource: "nvidia.com/gpu", nominal: "64" }], weight: "0.5", stopPolicy: "Hold" } },
  { addJob: { namespace: "team-a", name: "next", groups: [{ replicas: 8, requests: { "nvidia.com/gpu": "8" } }], queue: "research" } },
  { changeJob: { namespace: "team-a", name: "llm", priority: -5 } },
  { removeJob: { namespace: "team-a", name: "llm" } },
];

test("changes of each kind are the same after a trip through the URL", () => {
  expect(CHANGES.map(kindOf)).toEqual(KINDS);
  expect(readChanges(writeChanges(CHANGES) ?? "")).toEqual({ changes: CHANGES });
  expect(writeChanges([])).toBeUndefined();
  expect(readChanges(null)).toEqual({ changes: [] });
});

test("a text that is no list of changes is a problem, and not thrown", () => {
  for (const text of [
    "{",
    "null",
    "1",
    "{}",
    '"x"',
    "[null]",
    "[[]]",
    "[{}]",
    '[{"toString": {"name": "a"}}]',
    '[{"__proto__": {"name": "a"}}]',
    '[{"removeNode": {"name": "a"}, "cordonNode": {"name": "a"}}]',
    '[{"removeNode": {"name": 1}}]',
    '[{"removeNode": {}}]',
    '[{"removeNode": {"name": "a", "force": true}}]',
    '[{"addNodes": {"like": "a", "count": "4"}}]',
    '[{"addNodes": {"like": "a", "count": 1.5}}]',
    '[{"addNodes": {"like": "a", "count": 1, "labels": ["x"]}}]',
    '[{"changeQueue": {"name": "a", "quotas": [{}]}}]',
    '[{"addJob": {"namespace": "a", "name": "b", "like": "c"}}]',
    `["${"a".repeat(MAX_TEXT)}"]`,
    JSON.stringify(Array(MAX_CHANGES + 1).fill({ removeNode: { name: "a" } })),
  ]) {
    const { changes, problem } = readChanges(text);
    expect(changes, text).toEqual([]);
    expect(problem, text).toBeTypeOf("string");
  }
});

test("a change that only names a queue or a job is unfinished", () => {
  expect(isUnfinished({ changeQueue: { name: "a" } })).toBe(true);
  expect(isUnfinished({ changeJob: { namespace: "a", name: "b" } })).toBe(true);
  expect(CHANGES.some(isUnfinished)).toBe(false);
});
