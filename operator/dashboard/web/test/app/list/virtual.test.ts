import fc from "fast-check";
import { expect, test } from "vitest";

import { rowsInView } from "../../../src/app/list/virtual";

const list = fc.record({
  count: fc.nat(20_000),
  rowHeight: fc.integer({ min: 1, max: 120 }),
  above: fc.integer({ min: -2_000, max: 3_000_000 }),
  viewHeight: fc.nat(3_000),
  overscan: fc.nat(20),
});

test("each row that can be seen is drawn, and no more than needed", () => {
  fc.assert(
    fc.property(list, fc.nat(), (view, pick) => {
      const { first, end } = rowsInView(view);
      expect(first).toBeGreaterThanOrEqual(0);
      expect(end).toBeLessThanOrEqual(view.count);
      expect(end).toBeGreaterThanOrEqual(first);
      expect(end - first).toBeLessThanOrEqual(view.viewHeight / view.rowHeight + 2 * view.overscan + 3);
      if (view.count === 0) return;
      const row = pick % view.count;
      const top = row * view.rowHeight - view.above;
      const isSeen = top < view.viewHeight && top + view.rowHeight > 0;
      if (isSeen) expect(row >= first && row < end).toBe(true);
    }),
    { numRuns: 5_000 },
  );
});

test("rows at the ends", () => {
  const view = { count: 100, rowHeight: 10, viewHeight: 50, overscan: 2 };
  expect(rowsInView({ ...view, above: 0 })).toEqual({ first: 0, end: 7 });
  expect(rowsInView({ ...view, above: 500 })).toEqual({ first: 48, end: 57 });
  expect(rowsInView({ ...view, above: 950 })).toEqual({ first: 93, end: 100 });
  expect(rowsInView({ ...view, above: 9_999 })).toEqual({ first: 100, end: 100 });
});
