import fc from "fast-check";
import { expect, test } from "vitest";

import { buildGang, countStates, podState, splitByNode } from "../../../src/app/job/gang";
import { parseRanges, rankGroups } from "../../../src/app/job/ranks";
import { makePod, makeReport } from "../make";

test("ranks follow role, and groups outside the gang come last", () => {
  const groups = [
    { name: "extra", replicas: 2, membership: "BestEffort" },
    { name: "worker", replicas: 4 },
    { name: "eval", role: "Evaluator" },
    { name: "ps", role: "Server", replicas: 2 },
    { name: "chief", role: "Coordinator" },
  ];
  const ranked = rankGroups({ taskGroups: groups }, 1);
  expect(ranked.map((own) => [own.group.name, own.first, own.pods])).toEqual([
    ["chief", 0, 1],
    ["worker", 1, 4],
    ["ps", 5, 2],
    ["eval", 7, 1],
    ["extra", 8, 2],
  ]);
});

test("stage has only its groups", () => {
  const taskGroups = [
    { name: "prepare" },
    { name: "train", replicas: 2, dependsOn: [{ group: "prepare", status: "Complete" }] },
    { name: "watch", dependsOn: [{ group: "train" }] },
  ];
  const names = (stage: number): string[] => rankGroups({ taskGroups }, stage).map((own) => own.group.name);
  expect(names(1)).toEqual(["prepare"]);
  expect(names(2)).toEqual(["train", "watch"]);
  expect(names(9)).toEqual(["train", "watch"]);
});

test("cells have the pods of this attempt, and missing pods their cause", () => {
  const missing = { group: "worker", indexes: "3", ranks: "3", count: 1, why: "is recreated" };
  const done = { group: "worker", indexes: "4-5", ranks: "4-5", count: 2, why: "succeeded", done: true };
  const report = makeReport(
    [{ name: "worker", replicas: 7 }],
    { phase: "Running", attempt: 2 },
    {
      pods: [
        makePod("worker", 0, { attempt: 2, node: "a" }),
        makePod("worker", 1, { attempt: 2, node: "a", state: "Error", exitCode: 1 }),
        makePod("worker", 2, { attempt: 1 }),
        makePod("worker", 2, { attempt: 2, round: 1, state: "Pending", ready: 0 }),
        makePod("worker", 2, { attempt: 2, state: "Terminating" }),
      ],
      missing: [missing, done],
    },
  );
  const cells = buildGang(report);
  expect(cells.map((cell) => cell.state)).toEqual(["ready", "failed", "starting", "missing", "done", "done", "missing"]);
  expect(cells[3]?.missing?.why).toBe("is recreated");
  expect(countStates(cells).get("done")).toBe(2);
  expect(splitByNode(cells).map((run) => [run.node, run.cells.length])).toEqual([
    ["a", 2],
    [undefined, 5],
  ]);
});

test("gang that is not placed waits", () => {
  const cells = buildGang(makeReport([{ name: "worker", replicas: 3 }], { phase: "Queued" }));
  expect(cells.map((cell) => cell.state)).toEqual(["waiting", "waiting", "waiting"]);
});

test("spec that is not valid does not freeze the page", () => {
  const groups = [{ name: "a", replicas: 1e9 }, { name: "b" }];
  expect(buildGang(makeReport(groups, { phase: "Running" })).length).toBeLessThan(20_000);
});

test("words of pods are judged as by the command line", () => {
  const judge = (state: string, ready = 1): string => podState({ state, ready, containers: 1 });
  expect(judge("Running")).toBe("ready");
  expect(judge("Running", 0)).toBe("running");
  expect(judge("Init:1/2")).toBe("starting");
  expect(judge("Init:Error")).toBe("failed");
  expect(judge("CrashLoopBackOff")).toBe("failed");
  expect(judge("Completed")).toBe("done");
  expect(judge("Terminating")).toBe("stopping");
  expect(judge("NewWord")).toBe("failed");
});

test("ranges are read", () => {
  expect(parseRanges("0-3,7")).toEqual([0, 1, 2, 3, 7]);
  expect(parseRanges("")).toEqual([]);
  expect(parseRanges("x,2-1")).toEqual([]);
  expect(parseRanges("0-999999999999").length).toBeLessThan(100_000);
});

test("runs hold all cells in order", () => {
  const nodes = fc.array(fc.option(fc.constantFrom("a", "b"), { nil: undefined }), { maxLength: 20 });
  fc.assert(
    fc.property(nodes, (all) => {
      const pods = all.map((node, index) => makePod("worker", index, node === undefined ? {} : { node }));
      const report = makeReport([{ name: "worker", replicas: all.length }], { phase: "Running" }, { pods });
      const cells = buildGang(report);
      const runs = splitByNode(cells);
      expect(runs.flatMap((run) => run.cells)).toEqual(cells);
      for (const run of runs) expect(new Set(run.cells.map((cell) => cell.pod?.node)).size).toBe(1);
    }),
  );
});
