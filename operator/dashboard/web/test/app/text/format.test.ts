import fc from "fast-check";
import { expect, test } from "vitest";

import {
  countOf,
  formatAge,
  formatAmount,
  formatCount,
  formatSeconds,
  formatUntil,
  jobLabel,
  parseQuantity,
  resourceLabel,
} from "../../../src/app/text/format";

test("spans are those of the command line", () => {
  // The table of the test in age.rs of the command line.
  const rows: readonly [number, string][] = [
    [-1, "0s"],
    [0, "0s"],
    [119, "119s"],
    [120, "2m"],
    [121, "2m1s"],
    [599, "9m59s"],
    [600, "10m"],
    [10_799, "179m"],
    [10_800, "3h"],
    [11_000, "3h3m"],
    [28_800, "8h"],
    [172_799, "47h"],
    [172_800, "2d"],
    [180_000, "2d2h"],
    [691_200, "8d"],
    [63_072_000, "2y"],
  ];
  for (const [seconds, text] of rows) expect(formatSeconds(seconds), `${seconds}`).toBe(text);
});

test("amounts are those of the command line", () => {
  // The table of the test in amount.rs of the command line.
  const rows: readonly [string, string, string][] = [
    ["memory", "1099511627776", "1Ti"],
    ["memory", "1649267441664", "1.5Ti"],
    ["memory", "1024Mi", "1Gi"],
    ["memory", "512", "512"],
    ["memory", "0", "0"],
    ["ephemeral-storage", "10Gi", "10Gi"],
    ["hugepages-2Mi", "2097152", "2Mi"],
    ["cpu", "500m", "500m"],
    ["nvidia.com/gpu", "1024", "1024"],
    ["memory", "much", "much"],
  ];
  for (const [resource, quantity, text] of rows) {
    expect(formatAmount(resource, quantity), `${quantity} ${resource}`).toBe(text);
  }
});

test("past time is now, and a clock that is behind gives no negative age", () => {
  const at = (seconds: number): Date => new Date(seconds * 1_000);
  expect(formatUntil(at(10), at(10))).toBe("now");
  expect(formatUntil(at(70), at(10))).toBe("60s");
  expect(formatAge(at(10), at(15))).toBe("5s");
  expect(formatAge(at(20), at(15))).toBe("0s");
  expect(formatAge("2026-01-01T00:00:00Z", new Date("2026-01-01T05:30:00Z"))).toBe("5h30m");
  expect(formatAge("no time", at(15))).toBe("0s");
});

test("span grows with the time", () => {
  const units: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400, y: 31_536_000 };
  const read = (text: string): number =>
    [...text.matchAll(/(\d+)([smhdy])/g)].reduce((sum, [, n, unit = "s"]) => sum + Number(n) * (units[unit] ?? 0), 0);
  fc.assert(
    fc.property(fc.nat(10 ** 9), (seconds) => {
      const shown = read(formatSeconds(seconds));
      expect(shown).toBeLessThanOrEqual(seconds);
      // It never loses more than a third.
      expect(shown).toBeGreaterThan(seconds * 0.66 - 1);
    }),
  );
});

test("quantities of Kubernetes are read", () => {
  const rows: readonly [string, number | undefined][] = [
    ["8", 8],
    ["500m", 0.5],
    ["1.5Gi", 1.5 * 2 ** 30],
    ["64Gi", 64 * 2 ** 30],
    ["2k", 2_000],
    ["1e3", 1_000],
    ["-3", -3],
    ["much", undefined],
    ["", undefined],
    ["1 Gi", undefined],
  ];
  for (const [text, value] of rows) expect(parseQuantity(text), text).toBe(value);
  expect(parseQuantity(undefined)).toBeUndefined();
});

test("names of external pods are those of messages", () => {
  expect(jobLabel("llm")).toBe("llm");
  expect(jobLabel("podgroup.a.b")).toBe("PodGroup/a.b");
  expect(jobLabel("pod.w-0")).toBe("Pod/w-0");
  expect(jobLabel("pod")).toBe("pod");
});

test("counts have nouns and thin spaces", () => {
  expect(countOf(1, "pod")).toBe("1 pod");
  expect(countOf(0, "pod")).toBe("0 pods");
  expect(formatCount(1234567)).toBe("1\u2009234\u2009567");
  expect(resourceLabel("nvidia.com/gpu", "default")).toBe("nvidia.com/gpu");
  expect(resourceLabel("nvidia.com/gpu", "h100")).toBe("nvidia.com/gpu (h100)");
});
