import fc from "fast-check";
import { expect, test } from "vitest";

import { buildQueueTree, flattenTree, jobsOfQueues, namesBelow } from "../../../src/app/queue/queue-tree";
import type { QueueState } from "../../../src/wire/cluster";
import { makeJob, makeQueue, makeRunning } from "../make";

const tree = (...queues: readonly QueueState[]) =>
  buildQueueTree(new Map(queues.map((queue) => [queue.metadata.name, queue])));

test("queues stand below their parents, in the order of their share", () => {
  const roots = tree(
    makeQueue("b", { parent: "root", share: "0.5" }),
    makeQueue("a", { parent: "root", share: "0.9" }),
    makeQueue("root"),
    makeQueue("deep", { parent: "a" }),
    makeQueue("orphan", { parent: "deleted", share: "2" }),
  );
  const rows = flattenTree(roots).map((node) => [node.queue.metadata.name, node.depth]);
  expect(rows).toEqual([
    ["root", 0],
    ["b", 1],
    ["a", 1],
    ["deep", 2],
    ["orphan", 0],
  ]);
});

test("smallest share with pending jobs has the next turn", () => {
  const next = (...queues: readonly QueueState[]): string[] =>
    flattenTree(tree(...queues)).flatMap((node) => (node.isNext ? [node.queue.metadata.name] : []));
  const a = makeQueue("a", { share: "0.1", pending: 1 });
  const b = makeQueue("b", { share: "0.2", pending: 1 });
  expect(next(a, b)).toEqual(["a"]);
  expect(next({ ...a, pending: 0 }, b)).toEqual([]);
  expect(next({ ...a, active: false }, b, makeQueue("c", { share: "0.3", pending: 2 }))).toEqual(["b"]);
  // The jobs of a child count for its parent.
  expect(next(makeQueue("p", { share: "0.05" }), makeQueue("x", { parent: "p", pending: 1 }), a)).toEqual(["p"]);
});

test("each queue is in the tree exactly once, also if parents form a circle", () => {
  const name = fc.constantFrom("a", "b", "c", "d", "e");
  const queues = fc.uniqueArray(fc.record({ name, parent: fc.option(name, { nil: undefined }) }), {
    selector: (own) => own.name,
  });
  fc.assert(
    fc.property(queues, (all) => {
      const built = tree(...all.map((own) => makeQueue(own.name, own.parent === undefined ? {} : { parent: own.parent })));
      const names = flattenTree(built).map((node) => node.queue.metadata.name);
      expect([...names].sort()).toEqual(all.map((own) => own.name).sort());
    }),
    { numRuns: 2_000 },
  );
});

test("holders are sorted by size, and waiters by position", () => {
  const [root] = tree(makeQueue("root"), makeQueue("vision", { parent: "root" }));
  const names = root ? namesBelow(root) : new Set<string>();
  const jobs = [
    makeRunning("small", { queue: "vision", gpus: 1 }),
    makeRunning("large", { queue: "root", gpus: 64 }),
    makeJob("second", { queue: "vision", position: 2 }),
    makeJob("first", { queue: "root", position: 1 }),
    makeRunning("other", { queue: "speech" }),
  ];
  const found = jobsOfQueues(jobs, names);
  expect(found.holders.map((job) => job.metadata.name)).toEqual(["large", "small"]);
  expect(found.waiters.map((job) => job.metadata.name)).toEqual(["first", "second"]);
});
