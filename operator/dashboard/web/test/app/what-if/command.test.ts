import { expect, test } from "vitest";

import { forecastYaml, whatIfCommand } from "../../../src/app/what-if/command";
import type { ForecastChange } from "../../../src/wire/forecast";

const QUOTA = { resource: "nvidia.com/gpu", nominal: "64" } as const;

test("each kind of change has its option", () => {
  const changes: readonly ForecastChange[] = [
    { addNodes: { like: "gpu-0", count: 4 } },
    { removeNode: { name: "gpu-1" } },
    { cordonNode: { name: "gpu-2" } },
    { restoreNode: { name: "gpu-3" } },
    { changeQueue: { name: "research", quotas: [QUOTA, { ...QUOTA, flavor: "h100" }], priority: -1, stopPolicy: "Hold" } },
    { removeJob: { namespace: "a", name: "gone" } },
    { changeJob: { namespace: "a", name: "llm", priority: 9, runtimeSeconds: 60, queue: "vision" } },
    { addJob: { namespace: "a", name: "added-1", queue: "research", groups: [{ replicas: 8, requests: { "nvidia.com/gpu": "4" } }] } },
  ];
  expect(whatIfCommand(changes, "prod")).toBe(
    "trellis what-if --add-nodes gpu-0=4 --remove-node gpu-1 --cordon gpu-2 --restore gpu-3" +
      " --quota research:nvidia.com/gpu=64 --quota research:nvidia.com/gpu@h100=64 --queue-priority research=-1 --stop-queue research=Hold" +
      " --remove-job a/gone --priority a/llm=9 --runtime a/llm=60s --move a/llm=vision --add-job research=8x4 -n a --context prod",
  );
});

test("changes that no option says have no command", () => {
  const job = { namespace: "a", name: "added-1", queue: "q", groups: [{ replicas: 1, requests: { "nvidia.com/gpu": "1" } }] };
  const unsayable: readonly ForecastChange[] = [
    { addNodes: { like: "gpu-0", count: 4, labels: { rack: "r9" } } },
    { changeQueue: { name: "q" } },
    { changeQueue: { name: "q", weight: "2" } },
    { changeQueue: { name: "q", quotas: [{ ...QUOTA, lendingLimit: "1" }] } },
    { addJob: { ...job, priority: 1 } },
    { addJob: { ...job, name: "other" } },
    { addJob: { namespace: "a", name: "added-1", like: { namespace: "a", name: "b" } } },
    { removeNode: { name: "--snapshot" } },
    { removeNode: { name: "a b" } },
    { changeJob: { namespace: "a", name: "b=c", priority: 1 } },
  ];
  for (const change of unsayable) expect(whatIfCommand([change]), JSON.stringify(change)).toBeUndefined();
  expect(whatIfCommand([])).toBeUndefined();
  expect(whatIfCommand([{ addJob: job }, { addJob: { ...job, namespace: "b", name: "added-2" } }])).toBeUndefined();
});

test("the command keeps the order of changes of one node", () => {
  const cordon: ForecastChange = { cordonNode: { name: "gpu-0" } };
  const restore: ForecastChange = { restoreNode: { name: "gpu-0" } };
  expect(whatIfCommand([restore, cordon])).toBe("trellis what-if --restore gpu-0 --cordon gpu-0");
  expect(whatIfCommand([cordon, restore])).toBeUndefined();
});

test("the object has the changes", () => {
  expect(forecastYaml([{ addNodes: { like: "gpu-0", count: 4, labels: { rack: "r9" } } }])).toBe(
    [
      "apiVersion: visibility.trellis.dev/v1alpha1",
      "kind: Forecast",
      "spec:",
      "  changes:",
      "  - addNodes:",
      "      like: gpu-0",
      "      count: 4",
      "      labels:",
      "        rack: r9",
      "",
    ].join("\n"),
  );
});
