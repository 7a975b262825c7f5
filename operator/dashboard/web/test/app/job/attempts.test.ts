import { expect, test } from "vitest";

import { buildAttemptBar, describeRuntime } from "../../../src/app/job/attempts";
import type { TrainingJob, TrainingJobStatus } from "../../../src/wire/job";

const at = (minute: number): string => new Date(Date.UTC(2026, 0, 1, 0, minute)).toISOString();
const now = new Date(at(100));

function makeTraining(status: TrainingJobStatus): TrainingJob {
  return { metadata: { name: "llm", creationTimestamp: at(0) }, spec: { taskGroups: [] }, status };
}

function spans(status: TrainingJobStatus): unknown {
  const bar = buildAttemptBar(makeTraining(status), now);
  const minutes = (time: number): number => (time - Date.parse(at(0))) / 60_000;
  return bar?.spans.map((span) => [span.kind, minutes(span.from), minutes(span.to)]);
}

test("first attempt waits, starts and runs", () => {
  expect(spans({ phase: "Running", queuedTime: at(0), scheduledTime: at(20), runningTime: at(25) })).toEqual([
    ["waiting", 0, 20],
    ["starting", 20, 25],
    ["running", 25, 100],
  ]);
});

test("job that waits again after a preemption does not run", () => {
  const lastPreemption = { message: "", attempt: 1, time: at(60) };
  const status = { phase: "Queued", queuedTime: at(0), scheduledTime: at(20), runningTime: at(25), lastPreemption };
  expect(spans(status)).toEqual([
    ["earlier", 0, 60],
    ["waiting", 60, 100],
  ]);
});

test("failure of the attempt before is a mark, and does not cut the current one", () => {
  const lastFailure = { pod: "", reason: "Error", attempt: 1, time: at(50) };
  const status = { phase: "Running", queuedTime: at(0), scheduledTime: at(60), runningTime: at(61), lastFailure };
  expect(spans(status)).toEqual([
    ["earlier", 0, 50],
    ["waiting", 50, 60],
    ["starting", 60, 61],
    ["running", 61, 100],
  ]);
  expect(buildAttemptBar(makeTraining(status), now)?.marks).toEqual([{ kind: "failure", at: Date.parse(at(50)) }]);
});

test("job that has ended ends its bar", () => {
  const status = { phase: "Complete", queuedTime: at(0), scheduledTime: at(1), runningTime: at(2), completionTime: at(50) };
  expect(spans(status)).toEqual([
    ["waiting", 0, 1],
    ["starting", 1, 2],
    ["running", 2, 50],
  ]);
});

test("running time is that of trellis status", () => {
  const describe = (status: TrainingJobStatus): string => describeRuntime(makeTraining(status), now);
  expect(describe({})).toBe("");
  expect(describe({ runningTime: at(41) })).toBe("59m");
  expect(describe({ runningTime: at(41), activeSeconds: 5_400 })).toBe("149m, 59m in this attempt");
});
