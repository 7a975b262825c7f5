import { readFileSync } from "node:fs";

import fc from "fast-check";
import { expect, test } from "vitest";

import {
  SORT_COLUMNS,
  canNeverStart,
  describeEta,
  describeReason,
  filterJobs,
  nextOrder,
  readFilter,
  readOrder,
  sortJobs,
  timesOf,
  writeOrder,
} from "../../../src/app/job/jobs";
import type { JobState } from "../../../src/wire/cluster";
import { makeJob, makeRunning } from "../make";

const names = (jobs: readonly JobState[]): string[] => jobs.map((job) => job.metadata.name);

test("order is that of trellis queue: by queue, placed jobs first, then by position", () => {
  const jobs = [
    makeJob("second", { position: 2 }),
    makeJob("first", { position: 1 }),
    makeRunning("new", { since: "2026-01-02T00:00:00Z" }),
    makeRunning("old", { since: "2026-01-01T00:00:00Z" }),
    makeRunning("other", { queue: "a" }),
  ];
  expect(names(sortJobs(jobs, readOrder(null)))).toEqual(["other", "old", "new", "first", "second"]);
});

test("jobs without a value come last in both directions", () => {
  const jobs = [
    makeJob("none"),
    makeJob("late", { expectedStart: "2026-01-03T00:00:00Z" }),
    makeJob("soon", { expectedStart: "2026-01-02T00:00:00Z" }),
    makeJob("never", { expectedStart: "2026-01-01T00:00:00Z", reason: "ExceedsQuota" }),
  ];
  expect(names(sortJobs(jobs, readOrder("eta")))).toEqual(["soon", "late", "never", "none"]);
  expect(names(sortJobs(jobs, readOrder("-eta")))).toEqual(["late", "soon", "never", "none"]);
});

const job = fc.record({
  name: fc.constantFrom("a", "b", "c", "d"),
  queue: fc.constantFrom("x", "y"),
  position: fc.option(fc.nat(5), { nil: undefined }),
  gpus: fc.nat(3),
  user: fc.option(fc.constantFrom("u", "v"), { nil: undefined }),
});
const jobs = fc.array(
  job.map(({ position, user, ...own }) =>
    makeJob(own.name, { ...own, ...(position !== undefined && { position }), ...(user !== undefined && { user }) }),
  ),
  { maxLength: 30 },
);

test("sorting loses no job, and its keys are in order", () => {
  fc.assert(
    fc.property(jobs, fc.constantFrom(...SORT_COLUMNS), fc.boolean(), (all, column, descending) => {
      expect(new Set(sortJobs(all, { column, descending }))).toEqual(new Set(all));
      const gpus = sortJobs(all, { column: "gpus", descending }).map((own) => own.gpus);
      expect(gpus).toEqual([...gpus].sort((a, b) => (descending ? b - a : a - b)));
    }),
  );
});

test("filters select jobs", () => {
  const all = [
    makeJob("llm", { user: "alice", reason: "QuotaExceeded", message: "needs 64" }),
    makeRunning("bert", { user: "bob", queue: "vision" }),
    makeRunning("podgroup.sweep", { phase: "Starting" }),
  ];
  const select = (query: string): string[] => names(filterJobs(all, readFilter(new URLSearchParams(query))));
  expect(select("")).toHaveLength(3);
  expect(select("state=waiting")).toEqual(["llm"]);
  expect(select("state=running")).toEqual(["bert", "podgroup.sweep"]);
  expect(select("state=Starting")).toEqual(["podgroup.sweep"]);
  expect(select("q=vision")).toEqual(["bert"]);
  expect(select("user=alice&q=vision")).toEqual([]);
  expect(select("namespace=team-b")).toEqual([]);
  expect(select("text=NEEDS+quota")).toEqual(["llm"]);
  expect(select("text=PodGroup/sw")).toEqual(["podgroup.sweep"]);
  expect(select("text=team-a/b")).toEqual(["bert"]);
});

test("order survives the URL, and a third click removes it", () => {
  for (const column of SORT_COLUMNS) {
    for (const descending of [false, true]) {
      expect(readOrder(writeOrder({ column, descending }) ?? null)).toEqual({ column, descending });
    }
  }
  expect(readOrder("nonsense").column).toBeUndefined();
  let order = readOrder(null);
  const seen = [1, 2, 3].map(() => {
    order = nextOrder(order, "gpus");
    return writeOrder(order);
  });
  expect(seen).toEqual(["gpus", "-gpus", undefined]);
});

test("expected start and end are in the words of trellis queue", () => {
  const now = new Date("2026-01-01T00:00:00Z");
  const at = (name: "expectedStart" | "expectedEnd", time: string): Partial<JobState> => ({ [name]: time });
  expect(describeEta(makeJob("a", at("expectedStart", "2026-01-01T01:03:00Z")), now)).toBe("starts in 63m");
  expect(describeEta(makeJob("a", at("expectedStart", "2025-01-01T01:03:00Z")), now)).toBe("starts now");
  expect(describeEta(makeRunning("a", at("expectedEnd", "2026-01-01T06:00:00Z")), now)).toBe("ends in 6h");
  expect(describeEta(makeJob("a", { reason: "ExceedsQuota" }), now)).toBe("never as it is");
  expect(describeEta(makeJob("a"), now)).toBeUndefined();
  expect(timesOf(makeRunning("a", { reason: "ExceedsQuota" })).eta).toBeUndefined();
});

test("running job needs no reason", () => {
  expect(describeReason(makeRunning("a", { reason: "Running", message: "the gang runs" }))).toBe("");
  expect(describeReason(makeJob("a", { reason: "QuotaExceeded", message: "needs 8" }))).toBe("QuotaExceeded: needs 8");
  expect(describeReason(makeJob("a", { reason: "QuotaExceeded" }))).toBe("QuotaExceeded");
});

test("reasons that need a change are those of the API", () => {
  const source = readFileSync(new URL("../../../../../../api/src/status/reason.rs", import.meta.url), "utf8");
  const body = /fn requires_change[^{]*\{([^}]*)\}/.exec(source)?.[1] ?? "";
  const words = [...body.matchAll(/Self::(\w+)/g)].map((match) => match[1] ?? "");
  expect(words.length).toBeGreaterThan(2);
  for (const reason of words) expect(canNeverStart(makeJob("a", { reason })), reason).toBe(true);
  expect(canNeverStart(makeJob("a", { reason: "QuotaExceeded" }))).toBe(false);
});
