import { expect, test } from "vitest";

import { describePlanFailure, lineSentence, refusedNamespace, submitCommand, summarizePlan, unnamedNodes, verdictLook } from "../../../src/app/plan/words";
import type { PlannedJob } from "../../../src/wire/plan";

const all = { isJob: () => true, isQueue: () => true };
const none = { isJob: () => false, isQueue: () => false };

function planned(job: Partial<PlannedJob> = {}): PlannedJob {
  return { namespace: "ml", name: "llm", verdict: "would run", runs: true, nodes: [], sections: [], ...job };
}

/** Nodes that a line links. */
function nodesOf(line: string, nodes: readonly string[]): (string | undefined)[] {
  const sentence = lineSentence(planned({ nodes }), "nodes", line, none);
  expect(sentence.map((span) => span.text).join("")).toBe(line);
  return sentence.flatMap((span) => span.node ?? []);
}

test("nodes of a line are links", () => {
  const nodes = ["gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-7", "a.example.org"];
  expect(nodesOf("worker: 8 on each of gpu-0..gpu-3, 4 on gpu-7", nodes)).toEqual(["gpu-0", "gpu-3", "gpu-7"]);
  expect(nodesOf("worker: 1 on a.example.org", nodes)).toEqual(["a.example.org"]);
  expect(nodesOf("data: provisioned for node gpu-0", nodes)).toEqual(["gpu-0"]);
  expect(nodesOf("4 pods on 4 nodes", nodes)).toEqual([]);
});

test("word that only looks like the name of a node is no link", () => {
  expect(nodesOf("worker: 1 on worker", ["worker"])).toEqual(["worker"]);
  expect(nodesOf("worker: 1 on gpu-10", ["gpu-1", "worker"])).toEqual([]);
});

test("nodes within a range are unnamed", () => {
  const sections = [{ name: "nodes", lines: ["worker: 1 on each of gpu-0..gpu-3", "4 pods on 4 nodes"] }];
  expect(unnamedNodes(planned({ nodes: ["gpu-0", "gpu-1", "gpu-2", "gpu-3"], sections }))).toEqual(["gpu-1", "gpu-2"]);
  expect(unnamedNodes(planned({ nodes: ["gpu-0", "gpu-3"], sections }))).toEqual([]);
});

test("queue and victims are links if they are known", () => {
  const job = planned();
  const queue = [{ text: "vision", queue: "vision" }, { text: ", priority -5" }];
  expect(lineSentence(job, "queue", "vision, priority -5", all)).toEqual(queue);
  const line = "team-a/sweep: its queue holds more than its quota (work lost: 48 device-seconds)";
  const victim = { namespace: "team-a", name: "sweep" };
  expect(lineSentence(job, "preempts", line, all)[0]).toEqual({ text: "team-a/sweep", job: victim });
  expect(lineSentence(job, "preempts", line, all).map(({ text }) => text).join("")).toBe(line);
  expect(lineSentence(job, "preempts", line, none)).toEqual([{ text: line }]);
  expect(lineSentence(job, "queue", "vision, priority 0", none)).toEqual([{ text: "vision, priority 0" }]);
});

test("several jobs are counted as the command counts them", () => {
  const verdicts = (...words: readonly string[]): PlannedJob[] => words.map((verdict) => planned({ verdict }));
  expect(summarizePlan([])).toBe("no job was planned");
  expect(summarizePlan(verdicts("would wait"))).toBe("ml/llm would wait");
  expect(summarizePlan(verdicts("would run", "would run"))).toBe("2 jobs: 2 would run, 0 would wait");
  const mixed = verdicts("would not run", "would run", "would be Refused", "would wait", "would fly");
  expect(summarizePlan(mixed)).toBe("5 jobs: 1 would run, 1 would wait, 1 would be Refused, 1 would not run, 1 would fly");
});

test("each verdict has its own icon, and an unknown one has a look, too", () => {
  const icons = ["would run", "would wait", "would be Refused", "would not run", "constructor"].map((verdict) => verdictLook(verdict).icon);
  expect(new Set(icons).size).toBe(5);
});

test("command submits to the namespace of the plan", () => {
  expect(submitCommand([planned()], null)).toBe("trellis submit -f job.yaml -n ml");
  expect(submitCommand([planned({ namespace: "a; reboot" })], "my lab")).toBe("trellis submit -f job.yaml -n 'a; reboot' --context 'my lab'");
  expect(submitCommand([planned(), planned({ namespace: "other" })], null)).toBe("trellis submit -f job.yaml");
});

test("failure is told in the words of the server", () => {
  const since = new Date("2026-01-01T00:00:00Z");
  const text = describePlanFailure({ kind: "unavailable", message: "no scheduler answers now" }, since);
  expect(text).toEqual({ title: "The operator has not planned", text: "No scheduler answers now." });
  expect(describePlanFailure({ kind: "offline", message: "x" }, since).title).toContain("The server of this page has not answered");
});

test("refusal of the API server names the namespace", () => {
  const told = (namespace: string): string => `plans.visibility.trellis.dev is forbidden: User "ada" cannot create resource "plans" in API group "visibility.trellis.dev" in the namespace "${namespace}": the ClusterRole trellis-edit has it`;
  expect(refusedNamespace(told("team-a"))).toBe("team-a");
  expect(refusedNamespace(told("$(reboot)"))).toBeUndefined();
  expect(refusedNamespace("the namespace is missing")).toBeUndefined();
});
