import fc from "fast-check";
import { expect, test } from "vitest";

import { holderLabel, perJobTexts, readUseBar, selectorText, subjectTexts } from "../../../src/app/policy/quota-use";
import { makeQuotaPolicy } from "./make";

test("bar of a limit has its numbers and its part in use", () => {
  expect(readUseBar({ limit: "runningJobs", used: "3", max: "4" }, {})).toEqual({ label: "running jobs", used: "3", max: "4", percent: 75, isFull: false });
  expect(readUseBar({ limit: "memory", used: "2147483648", max: "1Gi" }, {})).toEqual({ label: "memory", used: "2Gi", max: "1Gi", percent: 100, isFull: true });
});

test("limit of a flavor names resource and flavor", () => {
  const label = (limit: string): string => readUseBar({ limit, used: "0", max: "1" }, {}).label;
  expect(label("nvidia.com/gpu")).toBe("nvidia.com/gpu");
  expect(label("a100/nvidia.com/gpu")).toBe("nvidia.com/gpu (a100)");
  expect(label("a100/cpu")).toBe("cpu (a100)");
});

test("GPU-hours name the length of their window", () => {
  const bar = readUseBar({ limit: "gpuHours", used: "12.5", max: "100" }, { gpuHours: { limit: 100, windowHours: 720 } });
  expect(bar.label).toBe("GPU-hours in the last 30d");
});

test("limit of zero is full", () => {
  expect(readUseBar({ limit: "runningJobs", used: "0", max: "0" }, {})).toMatchObject({ percent: 100, isFull: true });
});

test("bar stays within its frame, whatever the status says", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), fc.string(), (limit, used, max) => {
      const { percent } = readUseBar({ limit, used, max }, {});
      expect(percent).toBeGreaterThanOrEqual(0);
      expect(percent).toBeLessThanOrEqual(100);
    }),
  );
});

test("holders are the subject, a user, or all unknown users", () => {
  expect(holderLabel({ uses: [] })).toBe("all together");
  expect(holderLabel({ requester: "", uses: [] })).toBe("unknown users");
  expect(holderLabel({ requester: "ada", uses: [] })).toBe("ada");
});

test("subject and limits of each job are in words", () => {
  expect(subjectTexts(makeQuotaPolicy("a"))).toEqual(["every job"]);
  const subject = { team: "vision", queueName: "research", namespaceSelector: { matchLabels: { tier: "gold" } } };
  expect(subjectTexts(makeQuotaPolicy("a", { subject }))).toEqual(["team vision", "queue research and the queues below it", "namespaces with tier=gold"]);
  expect(perJobTexts({ podsPerJob: 4, runtimeSecondsPerJob: 259_200 })).toEqual(["at most 4 pods", "at most 3d of running time"]);
});

test("selector without conditions selects all namespaces", () => {
  expect(selectorText(undefined)).toBe("all namespaces");
  expect(selectorText({})).toBe("all namespaces");
  const matchExpressions = [{ key: "env", operator: "NotIn", values: ["test", "dev"] }, { key: "team", operator: "Exists" }];
  expect(selectorText({ matchExpressions })).toBe("namespaces with env NotIn (test, dev), team Exists");
});
