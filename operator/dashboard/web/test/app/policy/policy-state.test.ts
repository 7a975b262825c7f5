import { expect, test } from "vitest";

import { policyState, sortJobPolicies, sortQuotaPolicies, sortVerdicts, violationWords } from "../../../src/app/policy/policy-state";
import { ACTIVE, makeCondition, makeJobPolicy, makeQuotaPolicy, makeVerdict } from "./make";

const broken = { observedGeneration: 1, conditions: [makeCondition("Active", "False", "Invalid"), makeCondition("Stalled", "True", "Invalid", "line 3")] };
const degraded = { observedGeneration: 1, conditions: [makeCondition("Active", "True"), makeCondition("Degraded", "True", "TestFailed")] };

test("state follows from the conditions, with those that say why", () => {
  expect(policyState(makeJobPolicy("a"))).toMatchObject({ word: "Active", problems: [] });
  expect(policyState(makeJobPolicy("a", { status: broken }))).toMatchObject({ word: "Not active", problems: [{ type: "Stalled", message: "line 3" }] });
  expect(policyState(makeJobPolicy("a", { status: degraded }))).toMatchObject({ word: "Degraded", problems: [{ reason: "TestFailed" }] });
});

test("policy without a current status is not read yet", () => {
  const { status: _, ...unread } = makeJobPolicy("a");
  expect(policyState(unread).word).toBe("Not read yet");
  expect(policyState(makeJobPolicy("a", { generation: 2 })).word).toBe("Not read yet");
});

test("inactive policy without another condition shows why it is inactive", () => {
  const status = { observedGeneration: 1, conditions: [makeCondition("Active", "False", "NoEffect")] };
  expect(policyState(makeJobPolicy("a", { status })).problems).toMatchObject([{ type: "Active", reason: "NoEffect" }]);
});

test("policies that need an action come first", () => {
  const { status: _, ...unread } = makeJobPolicy("unread");
  const policies = [
    makeJobPolicy("b"),
    makeJobPolicy("a"),
    makeJobPolicy("few", { status: { observedGeneration: 1, violationCount: 1, conditions: ACTIVE } }),
    makeJobPolicy("many", { status: { observedGeneration: 1, violationCount: 9, conditions: ACTIVE } }),
    unread,
    makeJobPolicy("degraded", { status: degraded }),
    makeJobPolicy("broken", { status: broken }),
  ];
  expect(sortJobPolicies(policies).map(({ name }) => name)).toEqual(["broken", "degraded", "unread", "many", "few", "a", "b"]);
});

test("quota policies with full holders come before those with room", () => {
  const full = makeQuotaPolicy("full", { status: { observedGeneration: 1, fullCount: 1, conditions: ACTIVE } });
  const policies = [makeQuotaPolicy("a"), full, makeQuotaPolicy("broken", { status: broken })];
  expect(sortQuotaPolicies(policies).map(({ name }) => name)).toEqual(["broken", "full", "a"]);
});

test("denied jobs come first, then undecided ones, then warned ones", () => {
  const jobs = [makeVerdict("warned", "Allowed"), makeVerdict("open", undefined), makeVerdict("b", "Denied"), makeVerdict("a", "Denied"), makeVerdict("also-open", "Undecided")];
  expect(sortVerdicts(jobs).map(({ name }) => name)).toEqual(["a", "b", "also-open", "open", "warned"]);
});

test("words for violations say what happens to the jobs", () => {
  expect(violationWords(makeJobPolicy("a"))).toContain("would be refused");
  expect(violationWords(makeJobPolicy("a", { onViolation: "Evict" }))).toContain("evicted");
  expect(violationWords(makeJobPolicy("a", { enforcement: "Warn" }))).toContain("warned");
  expect(violationWords(makeJobPolicy("a", { enforcement: "Audit" }))).toContain("would be denied");
});
