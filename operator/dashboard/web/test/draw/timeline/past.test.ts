import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { groupByJob } from "../../../src/app/job/ended-attempts";
import { spansOf } from "../../../src/draw/timeline/job-spans";
import { attemptAt, pastRun } from "../../../src/draw/timeline/past-runs";
import { MAX_ENDED, buildRows, rowOfJob, stepRow } from "../../../src/draw/timeline/rows";
import { describeRow } from "../../../src/views/timeline/describe-job";
import type { JobState } from "../../../src/wire/cluster";
import { NOW, hoursFromNow, makeAttempt } from "../made-up";

const HOUR = 3_600_000;
const now = NOW.getTime();

const llm: JobState = {
  metadata: { namespace: "ml", name: "llm" },
  queue: "ml",
  priority: 0,
  phase: "Running",
  gpus: 16,
  pods: 2,
  submitted: hoursFromNow(-9),
  since: hoursFromNow(-1),
};

const preempted = makeAttempt("llm", 1, [-8, -6], { phase: "Queued", preempted: true, message: "for ml/urgent: a higher priority", checkpoint: hoursFromNow(-6.5) });
const failed = makeAttempt("llm", 2, [-5, -4], { phase: "Restarting", failure: { pod: "llm-worker-1", reason: "Error", exitCode: 3, attempt: 2, time: hoursFromNow(-4) }, checkpoint: hoursFromNow(-6.5) });
const gone = makeAttempt("bert", 1, [-3, -2]);

describe("stretch of an ended attempt", () => {
  it("goes from its placement to its end, with its end and its last checkpoint", () => {
    expect(pastRun(preempted)).toEqual({ from: now - 8 * HOUR, to: now - 6 * HOUR, end: "preempted", checkpoint: now - 6.5 * HOUR });
  });

  it("has no checkpoint of the attempt before", () => {
    expect(pastRun(failed)).toMatchObject({ end: "failed", checkpoint: undefined });
  });

  it("is found at the pointer, also beside a narrow one, and the nearer one wins", () => {
    const past = [preempted, failed];
    expect(attemptAt(past, now - 7 * HOUR, 0)).toBe(preempted);
    expect(attemptAt(past, now - 5.5 * HOUR, 0)).toBeUndefined();
    expect(attemptAt(past, now - 5.4 * HOUR, HOUR)).toBe(failed);
    expect(attemptAt(past, now - 5.6 * HOUR, HOUR)).toBe(preempted);
    expect(attemptAt([], now, HOUR)).toBeUndefined();
  });

  it("never ends before it begins", () => {
    fc.assert(
      fc.property(fc.integer({ min: -90, max: 0 }), fc.integer({ min: -90, max: 0 }), (placed, ended) => {
        const run = pastRun(makeAttempt("llm", 1, [placed, ended]));
        expect(run.from).toBeLessThanOrEqual(run.to);
      }),
    );
  });
});

describe("stretches of a job with a past", () => {
  it("a placed job keeps its other stretches", () => {
    const past = [preempted, failed].map(pastRun);
    expect(spansOf(llm, now, past)).toEqual({ ...spansOf(llm, now), past });
  });

  it("a job that is gone has only its past", () => {
    const past = [pastRun(gone)];
    const { past: shown, isGone, ...spans } = spansOf(undefined, now, past);
    expect([shown, isGone]).toEqual([past, true]);
    expect(Object.values(spans).every((span) => span === undefined || span === false)).toBe(true);
  });
});

describe("rows with a past", () => {
  const past = groupByJob([preempted, failed, gone]);
  const goneOnly = groupByJob([gone]);

  it("attempts are in the row of their job, and a job that is gone has a row below", () => {
    const rows = buildRows([llm], past, goneOnly);
    expect(rows.rows).toEqual([
      { kind: "queue", queue: "ml", placed: 1, pending: 0, gpus: 16, ended: 1 },
      { kind: "job", key: "ml/llm", job: llm, past: [preempted, failed], gpus: 16 },
      { kind: "job", key: "ml/bert", job: undefined, past: [gone], gpus: 8 },
    ]);
    expect(rowOfJob(rows, "ml/bert")).toBe(2);
    expect(stepRow(rows, 1, 1)).toBe(2);
  });

  it("a queue without jobs has a heading for those that are gone", () => {
    const other = makeAttempt("sweep", 1, [-3, -2], { queue: "vision" });
    const rows = buildRows([llm], past, groupByJob([other]));
    expect(rows.rows.map((row) => (row.kind === "queue" ? row.queue : row.key))).toEqual(["ml", "ml/llm", "vision", "ml/sweep"]);
  });

  it("of many jobs that are gone, those that ended last have a row", () => {
    const many = Array.from({ length: MAX_ENDED + 20 }, (_, index) => makeAttempt(`job-${index}`, 1, [-20, -19 + index * 0.1]));
    const { rows } = buildRows([], new Map(), groupByJob(many));
    expect(rows[0]).toMatchObject({ ended: MAX_ENDED + 20 });
    expect(rows).toHaveLength(MAX_ENDED + 1);
    expect(rows[1]).toMatchObject({ key: `ml/job-${MAX_ENDED + 19}` });
  });
});

describe("row in words", () => {
  const describeFirst = (rows: ReturnType<typeof buildRows>): string => {
    const row = rows.rows[1];
    return row?.kind === "job" ? describeRow(row, NOW) : "";
  };

  it("names the attempts of a job, how they ended and for how long they held their place", () => {
    expect(describeFirst(buildRows([llm], groupByJob([preempted, failed])))).toBe(
      "ml/llm, queue ml: Running for 60m, 16 GPUs, no known end." +
        " Attempt 2: Failed 4h ago after 60m, llm-worker-1 Error, exit code 3." +
        " Attempt 1: Preempted 6h ago after 120m, for ml/urgent: a higher priority.",
    );
  });

  it("of a job that is gone, says so", () => {
    expect(describeFirst(buildRows([], new Map(), groupByJob([gone])))).toBe(
      "ml/bert, queue ml: neither pending nor placed. Attempt 1: Complete 120m ago after 60m, all pods have succeeded.",
    );
  });

  it("counts the attempts that it leaves out", () => {
    const many = [1, 2, 3, 4, 5].map((attempt) => makeAttempt("llm", attempt, [-9 + attempt, -8.5 + attempt]));
    expect(describeFirst(buildRows([llm], groupByJob(many)))).toMatch(/Attempt 5: .* Attempt 4: .* Attempt 3: .*\. 2 earlier attempts\.$/);
  });
});
