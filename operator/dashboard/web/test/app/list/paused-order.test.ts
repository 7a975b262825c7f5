import fc from "fast-check";
import { expect, test } from "vitest";

import { comparePausedOrder } from "../../../src/app/list/paused-order";

const changes = (shown: string, current: string): number => comparePausedOrder([...shown], [...current]).changes;

test("changes count rows that came, left or moved", () => {
  expect(changes("abc", "abc")).toBe(0);
  expect(changes("abc", "abcd")).toBe(1);
  expect(changes("abc", "ac")).toBe(1);
  expect(changes("abcd", "bcda")).toBe(1);
  expect(changes("abc", "cba")).toBe(2);
  expect(changes("abc", "xyz")).toBe(6);
  expect(changes("", "ab")).toBe(2);
});

test("no change is counted exactly if both orders are equal", () => {
  const keys = fc.uniqueArray(fc.constantFrom(..."abcdefgh"), { maxLength: 8 });
  fc.assert(
    fc.property(keys, keys, (shown, current) => {
      const { changes: count } = comparePausedOrder(shown, current);
      expect(count === 0).toBe(shown.join() === current.join());
      expect(count).toBeLessThanOrEqual(shown.length + current.length);
    }),
  );
});
