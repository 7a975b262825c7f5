import { describe, expect, it } from "vitest";

import {
  attemptsOfJob,
  checkpointOf,
  describeAttempt,
  describeCause,
  endKind,
  endWord,
  endsBesides,
  groupByJob,
  matchesEnded,
} from "../../../src/app/job/ended-attempts";
import type { EndedAttempt } from "../../../src/wire/attempt";
import type { LastFailure } from "../../../src/wire/job";
import { NOW, hoursFromNow, makeAttempt } from "../../draw/made-up";

const failure: LastFailure = { pod: "llm-worker-3", reason: "Error", exitCode: 17, lastLine: "CUDA error", attempt: 1, time: hoursFromNow(-1) };

/** An attempt whose job was deleted: it has neither a phase nor a reason. */
function makeDeleted(): EndedAttempt {
  const { phase: _, reason: __, message: ___, ...ended } = makeAttempt("llm", 1, [-2, -1]);
  return ended;
}

describe("end of an attempt", () => {
  it.each<[Partial<EndedAttempt>, string, string]>([
    [{}, "complete", "Complete"],
    [{ phase: "Failed", failure }, "failed", "Failed"],
    [{ phase: "Restarting", reason: "Restarting", failure }, "failed", "Failed"],
    [{ phase: "Queued", reason: "Preempted", preempted: true }, "preempted", "Preempted"],
    [{ phase: "Queued", reason: "Preempted", preempted: true, failure }, "preempted", "Preempted"],
    [{ phase: "Suspended" }, "suspended", "Suspended"],
    [{ phase: "Queued", reason: "NodeLost" }, "other", "NodeLost"],
    [{ phase: "Later" }, "other", "Complete"],
  ])("%j is %s, in one word %s", (more, kind, word) => {
    const ended = makeAttempt("llm", 1, [-2, -1], more);
    expect([endKind(ended), endWord(ended)]).toEqual([kind, word]);
  });

  it("without a phase, the job was deleted", () => {
    expect([endKind(makeDeleted()), endWord(makeDeleted()), describeCause(makeDeleted())]).toEqual(["deleted", "Deleted", ""]);
  });
});

describe("words of an attempt", () => {
  it("name its number, its end, its time and the cause", () => {
    const failed = makeAttempt("llm", 2, [-3, -1], { phase: "Restarting", failure });
    expect(describeAttempt(failed, NOW)).toBe("attempt 2: Failed 60m ago after 120m, llm-worker-3 Error, exit code 17: CUDA error");
    expect(describeAttempt(makeDeleted(), NOW)).toBe("attempt 1: Deleted 60m ago after 60m");
  });

  it("are on one line, without control characters, and short", () => {
    const hostile = makeAttempt("llm", 1, [-3, -1], { message: `a\u202e\nb\u001b[31m${"x".repeat(900)}` });
    expect(describeCause(hostile)).toMatch(/^a bx+…$/);
    expect(describeCause(hostile).length).toBeLessThan(170);
  });
});

describe("attempts of a list", () => {
  const attempts = [
    makeAttempt("llm", 1, [-9, -8], { phase: "Queued", preempted: true }),
    makeAttempt("bert", 1, [-5, -4], { queue: "vision", user: "eve@example.org" }),
    makeAttempt("llm", 2, [-3, -0.5], { phase: "Failed", failure }),
    makeAttempt("llm", 1, [-0.4, -0.2], { uid: "another" }),
  ];
  const numbers = (own: readonly EndedAttempt[]): unknown => own.map((ended) => [ended.job, ended.attempt]);

  it("those of a job are the newest first, without those of an older job of its name", () => {
    const job = { namespace: "ml", name: "llm" };
    expect(numbers(attemptsOfJob(attempts, job, "uid-llm"))).toEqual([["llm", 2], ["llm", 1]]);
    expect(attemptsOfJob(attempts, job, undefined)).toHaveLength(3);
    expect(attemptsOfJob(attempts, { namespace: "vision", name: "llm" }, undefined)).toEqual([]);
  });

  it("are grouped by job in the order of their ends", () => {
    expect([...groupByJob(attempts)].map(([key, own]) => [key, own.length])).toEqual([["ml/llm", 3], ["ml/bert", 1]]);
  });

  it("are selected by the filter of jobs", () => {
    const select = (filter: Parameters<typeof matchesEnded>[1]): number => attempts.filter((own) => matchesEnded(own, filter)).length;
    expect([select({}), select({ queue: "vision" }), select({ user: "eve@example.org" }), select({ text: "BERT eve" })]).toEqual([4, 1, 1, 1]);
    // They are neither pending nor placed.
    expect([select({ state: "waiting" }), select({ state: "running" }), select({ state: "Failed" })]).toEqual([0, 0, 1]);
    expect([select({ namespace: "ml" }), select({ namespace: "rl" })]).toEqual([4, 0]);
  });
});

describe("card of a job", () => {
  const lastFailure = failure;
  const lastPreemption = { message: "for ml/urgent", attempt: 2, time: hoursFromNow(-1) };
  const failed = makeAttempt("llm", 1, [-3, -2], { phase: "Restarting", failure });
  const preempted = makeAttempt("llm", 2, [-2, -1], { phase: "Queued", preempted: true });

  it("shows the last failure and preemption once", () => {
    expect(endsBesides({ lastFailure, lastPreemption }, [])).toEqual({ lastFailure, lastPreemption });
    expect(endsBesides({ lastFailure, lastPreemption }, [failed])).toEqual({ lastPreemption });
    expect(endsBesides({ lastFailure, lastPreemption }, [failed, preempted])).toEqual({});
    // The list has the attempt, but not its cause.
    expect(endsBesides({ lastFailure, lastPreemption }, [{ ...preempted, preempted: false }, makeAttempt("llm", 1, [-3, -2])])).toEqual({ lastFailure, lastPreemption });
    const other = [{ ...failed, attempt: 5 }, { ...preempted, attempt: 6 }];
    expect(endsBesides({ lastFailure, lastPreemption }, other)).toEqual({ lastFailure, lastPreemption });
    expect(endsBesides({}, [makeAttempt("llm", 1, [-3, -2])])).toEqual({});
  });

  it("shows a checkpoint only of the attempt itself", () => {
    expect(checkpointOf({ ...failed, checkpoint: hoursFromNow(-2.5) })).toBe(hoursFromNow(-2.5));
    expect([checkpointOf({ ...failed, checkpoint: hoursFromNow(-3.5) }), checkpointOf({ ...failed, checkpoint: hoursFromNow(-1) }), checkpointOf(failed)]).toEqual([undefined, undefined, undefined]);
  });
});
