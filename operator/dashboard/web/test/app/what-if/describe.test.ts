import { expect, test } from "vitest";

import { describeChange } from "../../../src/app/what-if/describe";
import type { ForecastChange } from "../../../src/wire/forecast";

test("each change is a sentence", () => {
  const cases: readonly (readonly [ForecastChange, string])[] = [
    [{ addNodes: { like: "gpu-0", count: 4 } }, "Add 4 nodes like gpu-0"],
    [{ addNodes: { like: "gpu-0", count: 1, labels: { rack: "r9" } } }, "Add 1 node like gpu-0 with rack=r9"],
    [{ removeNode: { name: "gpu-0" } }, "Remove node gpu-0"],
    [{ cordonNode: { name: "gpu-0" } }, "Cordon node gpu-0: its pods stay"],
    [{ restoreNode: { name: "gpu-0" } }, "Make node gpu-0 usable"],
    [
      { changeQueue: { name: "research", quotas: [{ resource: "nvidia.com/gpu", flavor: "h100", nominal: "64", borrowingLimit: "8" }], priority: 2 } },
      "Give queue research a quota of 64 nvidia.com/gpu (h100), a borrowing limit of 8 nvidia.com/gpu (h100), priority 2",
    ],
    [{ changeQueue: { name: "research", stopPolicy: "Hold" } }, "Stop queue research"],
    [{ changeQueue: { name: "research", stopPolicy: "None" } }, "Open queue research"],
    [{ changeQueue: { name: "research", weight: "2", stopPolicy: "HoldAndDrain" } }, "Give queue research weight 2, and stop and drain it"],
    [{ changeQueue: { name: "research" } }, "Change nothing of queue research"],
    [
      { addJob: { namespace: "a", name: "b", queue: "research", groups: [{ replicas: 8, requests: { "nvidia.com/gpu": "8" } }], runtimeSeconds: 3_600 } },
      "Add job a/b of 8 pods with 8 nvidia.com/gpu each to queue research for 60m",
    ],
    [{ addJob: { namespace: "a", name: "b", count: 3, like: { namespace: "a", name: "llm" } } }, "Add 3 jobs named a/b like a/llm"],
    [{ changeJob: { namespace: "a", name: "podgroup.b", priority: -1, queue: "q" } }, "Change job a/PodGroup/b: give it priority -1, move it to queue q"],
    [{ removeJob: { namespace: "a", name: "b" } }, "Remove job a/b"],
  ];
  for (const [change, sentence] of cases) expect(describeChange(change)).toBe(sentence);
});
