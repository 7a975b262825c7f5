import { expect, test } from "vitest";

import { countBadNodes, isBad, quietText, recentEnds } from "../../../src/app/queue/on-call";
import type { NodeState } from "../../../src/wire/cluster";
import { NOW, makeAttempt, makeHold, makeNode } from "../../draw/made-up";

const broken = makeNode("gpu-1", { reason: "Unhealthy", jobs: [makeHold("ml", "llm", 4, "Running"), makeHold("ml", "bert", 4, "Running")] });
const lost = makeNode("gpu-2", { reason: "NotReady", jobs: [makeHold("ml", "llm", 8, "Running")] });
const cordoned = makeNode("gpu-3", { reason: "SchedulingDisabled", jobs: [makeHold("rl", "sweep", 8, "Running")] });

test("a cordoned node is bad only if something else is wrong with it", () => {
  const both: NodeState = { ...cordoned, reasons: [...(cordoned.reasons ?? []), ...(broken.reasons ?? [])] };
  expect([broken, lost, cordoned, both, makeNode("gpu-0")].map(isBad)).toEqual([true, true, false, true, false]);
});

test("bad nodes are counted by reason, and a job on several of them counts once", () => {
  const more = makeNode("gpu-4", { reason: "NotReady" });
  expect(countBadNodes([makeNode("gpu-0"), broken, lost, cordoned, more])).toEqual({
    count: 3,
    reasons: [["NotReady", 2], ["Unhealthy", 1]],
    jobs: 2,
  });
  expect(countBadNodes([])).toEqual({ count: 0, reasons: [], jobs: 0 });
});

test("attempts of the last hour are told apart by their end, the newest first", () => {
  const failed = (attempt: number, ended: number) => makeAttempt("llm", attempt, [-9, ended], { phase: "Failed" });
  const attempts = [failed(1, -2), failed(2, -0.9), makeAttempt("bert", 1, [-9, -0.5], { preempted: true }), makeAttempt("eval", 1, [-9, -0.4]), failed(3, -0.1)];
  const ends = recentEnds(attempts, NOW.getTime() - 3_600_000);
  expect([ends.failed.map((own) => own.attempt), ends.preempted.map((own) => own.job)]).toEqual([[3, 2], ["bert"]]);
});

test("quiet is told only of what is known", () => {
  expect(quietText(true, true)).toBe("No bad node, and no failed attempt in the last hour.");
  expect([quietText(true, false), quietText(false, true), quietText(false, false)]).toEqual(["No bad node.", "No failed attempt in the last hour.", undefined]);
});
