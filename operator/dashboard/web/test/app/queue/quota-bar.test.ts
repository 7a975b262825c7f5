import fc from "fast-check";
import { expect, test } from "vitest";

import { barScale, boundedResources, mainResources, quotaBarParts, readQuotaRows } from "../../../src/app/queue/quota-bar";
import type { QueueResource } from "../../../src/wire/cluster";
import { makeQueue } from "../make";

const row = (flavor: string, resource: string, more: Partial<QueueResource> = {}): QueueResource => ({
  flavor,
  resource,
  nominalQuota: "56",
  used: "64",
  borrowed: "8",
  lendable: "40",
  available: "0",
  ...more,
});

test("devices matter, and other resources only without them", () => {
  const queue = makeQueue("a", { resources: [row("h100", "nvidia.com/gpu"), row("h100", "cpu"), row("h100", "pods")] });
  expect(mainResources(queue).map((own) => own.resource)).toEqual(["nvidia.com/gpu"]);
  const { available: _, ...unlimited } = row("h100", "pods");
  const other = makeQueue("b", { resources: [row("h100", "cpu"), unlimited] });
  expect(mainResources(other).map((own) => own.resource)).toEqual(["cpu"]);
  expect(boundedResources(queue)).toHaveLength(3);
});

test("what waits stands once for each resource", () => {
  const queue = makeQueue("a", {
    resources: [row("h100", "nvidia.com/gpu"), row("a100", "nvidia.com/gpu")],
    pendingResources: [{ resource: "nvidia.com/gpu", amount: "16" }],
  });
  const rows = readQuotaRows(queue, mainResources(queue));
  expect(rows.map((own) => own.amounts.waiting)).toEqual([16, 0]);
  expect(rows[0]?.amounts).toEqual({ nominal: 56, used: 64, borrowed: 8, lendable: 40, waiting: 16 });
});

test("parts stay within the bar, and used is own plus borrowed", () => {
  const amount = fc.nat(1_000);
  const amounts = fc.record({ nominal: amount, used: amount, borrowed: amount, lendable: amount, waiting: amount });
  fc.assert(
    fc.property(fc.array(amounts, { minLength: 1, maxLength: 4 }), (all) => {
      const scale = barScale(all);
      for (const own of all) {
        const parts = quotaBarParts(own, scale);
        for (const part of [parts.nominal, parts.own, parts.borrowed, parts.lendableStart, parts.lendable, parts.waiting]) {
          expect(part).toBeGreaterThanOrEqual(0);
          expect(part).toBeLessThanOrEqual(100);
        }
        const used = scale > 0 ? (own.used / scale) * 100 : 0;
        expect(parts.own + parts.borrowed).toBeCloseTo(used);
        expect(parts.isWaitingCut).toBe(own.waiting > scale);
      }
    }),
  );
});
