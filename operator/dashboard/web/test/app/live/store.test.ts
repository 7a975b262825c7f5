import { beforeEach, expect, test } from "vitest";

import {
  changes,
  clearQueue,
  follow,
  jobKey,
  nodes,
  queue,
  refuse,
  replaceNodes,
  replaceQueue,
  reportProblem,
  session,
  wantsNodes,
} from "../../../src/app/live/store";
import { applyLines } from "../../../src/app/live/stream";
import { makeJob, makeQueue, makeRunning } from "../make";

const time = "2026-01-01T00:00:00Z";

beforeEach(() => {
  clearQueue();
  replaceQueue({ ordered: true, version: "1", time, jobs: [makeJob("llm"), makeJob("bert")], queues: [makeQueue("research")], notes: [] });
});

test("lines of one frame are one update", () => {
  let updates = -1;
  const stop = queue.jobs.subscribe(() => (updates += 1));
  applyLines([
    { list: "queue", version: "2", time, jobs: [makeRunning("llm")] },
    { list: "queue", version: "3", time, goneJobs: ["team-a/bert"], jobs: [makeJob("new")] },
    { list: "queue", version: "4", time: "2026-01-01T00:00:05Z" },
  ]);
  stop();
  expect(updates).toBe(1);
  expect([...queue.jobs.value.keys()].sort()).toEqual(["team-a/llm", "team-a/new"]);
  expect(queue.version.value).toBe("4");
  expect(queue.time.value).toEqual(new Date("2026-01-01T00:00:05Z"));
});

test("changes of jobs are noted, but not those of the first list", () => {
  expect(changes.value).toEqual([]);
  applyLines([{ list: "queue", version: "2", time, jobs: [makeRunning("llm")], goneJobs: ["team-a/bert"] }]);
  expect(changes.value.map((change) => [change.key, change.what])).toEqual([
    ["team-a/llm", "started"],
    ["team-a/bert", "left"],
  ]);
});

test("queues can come, change, leave and be forbidden", () => {
  applyLines([{ list: "queue", version: "2", time, queues: [makeQueue("vision")], goneQueues: ["research"] }]);
  expect([...(queue.queues.value?.keys() ?? [])]).toEqual(["vision"]);
  applyLines([{ list: "queue", version: "3", time, queues: null }]);
  expect(queue.queues.value).toBeNull();
});

test("error keeps the rows, and the next line clears it", () => {
  applyLines([{ list: "queue", error: { kind: "unavailable", message: "no scheduler answers now" } }]);
  expect(queue.jobs.value.size).toBe(2);
  const since = queue.problem.value?.since;
  applyLines([{ list: "queue", error: { kind: "unavailable", message: "again" } }]);
  expect(queue.problem.value?.since).toBe(since);
  applyLines([{ list: "queue", version: "2", time }]);
  expect(queue.problem.value).toBeUndefined();
});

test("right that is taken away empties the list at once", () => {
  replaceNodes({ version: "1", time, nodes: [{ metadata: { name: "gpu-0" }, schedulable: true, otherPods: 0 }], notes: [] });
  reportProblem(nodes, { kind: "denied", message: "no" });
  expect(nodes.nodes.value.size).toBe(0);
  expect(queue.jobs.value.size).toBe(2);
  session.value = {
    user: "alice",
    mode: "local",
    version: "1",
    context: null,
    namespace: "a",
    may: { allJobs: true, queues: true, nodes: true },
    time,
  };
  refuse({ kind: "unauthorized", message: "no" });
  expect(queue.jobs.value.size + changes.value.length).toBe(0);
  expect(session.value).toBeUndefined();
});

test("nodes are wanted while a view follows them", () => {
  const [first, second] = [follow("nodes"), follow("nodes")];
  first();
  first();
  expect(wantsNodes.value).toBe(true);
  second();
  expect(wantsNodes.value).toBe(false);
});

test("key of a job is its namespace and name", () => {
  expect(jobKey(makeJob("llm"))).toBe("team-a/llm");
  expect(jobKey({ namespace: "ml", name: "pod.x" })).toBe("ml/pod.x");
});
