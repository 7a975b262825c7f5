import { expect, test } from "vitest";

import { kindOf } from "../../../src/app/what-if/changes";
import { changeOf, draftOf, emptyDraft } from "../../../src/app/what-if/form";
import type { ForecastChange } from "../../../src/wire/forecast";

test("a change that is edited without a new value stays the same", () => {
  const changes: readonly ForecastChange[] = [
    { addNodes: { like: "gpu-0", count: 4, labels: { rack: "r9", zone: "a" } } },
    { cordonNode: { name: "gpu-1" } },
    {
      changeQueue: {
        name: "q",
        quotas: [
          { resource: "nvidia.com/gpu", flavor: "h100", nominal: "64" },
          { resource: "cpu", nominal: "8" },
        ],
        priority: 0,
        weight: "0.5",
        stopPolicy: "None",
      },
    },
    {
      addJob: {
        namespace: "a",
        name: "b",
        groups: [
          { replicas: 8, requests: { cpu: "4", "nvidia.com/gpu": "8" } },
          { replicas: 1, requests: { cpu: "1" } },
        ],
        queue: "q",
        runtimeSeconds: 60,
      },
    },
    { addJob: { namespace: "a", name: "b", count: 3, like: { namespace: "a", name: "llm" } } },
    { changeJob: { namespace: "a", name: "b", priority: -1 } },
    { removeJob: { namespace: "a", name: "b" } },
  ];
  for (const change of changes) expect(changeOf(kindOf(change), draftOf(change), change)).toEqual({ change });
});

test("a form names the fields that are wrong", () => {
  const problems = (...[kind, draft]: Parameters<typeof changeOf>): readonly string[] => {
    const result = changeOf(kind, draft);
    return "problems" in result ? Object.keys(result.problems) : [];
  };
  expect(problems("addNodes", {})).toEqual(["like", "count"]);
  expect(problems("addNodes", { like: "gpu-0", count: "0" })).toEqual(["count"]);
  expect(problems("addNodes", { like: "gpu-0", count: "1.5" })).toEqual(["count"]);
  expect(problems("addNodes", { like: "gpu-0", count: "1", labels: "rack" })).toEqual(["labels"]);
  expect(problems("changeQueue", { name: "q", nominal: "many" })).toEqual(["nominal"]);
  expect(problems("changeQueue", { name: "q" })).toEqual(["nominal"]);
  expect(problems("changeJob", { job: "llm", priority: "1" })).toEqual(["job"]);
  expect(problems("changeJob", { job: "a/llm" })).toEqual(["priority"]);
  expect(problems("addJob", { namespace: "a", name: "b" })).toEqual(["replicas"]);
  expect(problems("addJob", { namespace: "a", name: "b", replicas: "1" })).toEqual(["queue"]);
  expect(problems("addJob", { namespace: "a", name: "b", replicas: "1", like: "a/llm" })).toEqual(["replicas"]);
});

test("a quota without a resource is of GPUs", () => {
  expect(changeOf("changeQueue", { name: "q", nominal: "64" })).toEqual({
    change: { changeQueue: { name: "q", quotas: [{ resource: "nvidia.com/gpu", nominal: "64" }] } },
  });
});

test("a new job has the name that the command gives it", () => {
  expect(emptyDraft("addJob", "team-a", 2)).toEqual({ namespace: "team-a", name: "added-2" });
});
