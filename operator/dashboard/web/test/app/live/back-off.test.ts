import fc from "fast-check";
import { expect, test } from "vitest";

import { pauseAfter } from "../../../src/app/live/back-off";

test("pauses grow up to half a minute", () => {
  const pauses = [1, 2, 3, 4, 5, 6, 7, 99].map((failures) => pauseAfter(failures, "offline", undefined, 0.5));
  expect(pauses).toEqual([1, 2, 4, 8, 15, 30, 30, 30]);
});

test("server's own time is kept, and a refusal is not asked at once", () => {
  expect(pauseAfter(1, "busy", 7, 0.5)).toBe(7);
  expect(pauseAfter(1, "denied", undefined, 0.5)).toBe(30);
});

test("no request is made at once, whatever has happened before", () => {
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  fc.assert(
    fc.property(fc.integer(), random, (failures, spread) => {
      const pause = pauseAfter(failures, "internal", undefined, spread);
      expect(pause).toBeGreaterThanOrEqual(0.9);
      expect(pause).toBeLessThanOrEqual(33);
    }),
  );
});
