import fc from "fast-check";
import { expect, test } from "vitest";

import { applyDeltas, indexRows } from "../../../src/app/live/delta";

interface Row {
  readonly key: string;
  readonly value: number;
}

const keyOf = (row: Row): string => row.key;

/** Names of objects, with those that a plain object would treat in a special way. */
const key = fc.constantFrom("a", "b", "c", "d", "e", "__proto__", "constructor", "ns/x");
const list = fc.uniqueArray(fc.record({ key, value: fc.nat(9) }), { selector: keyOf });

/** Returns the rows that differ, as the server computes them. */
function diff(before: ReadonlyMap<string, Row>, after: ReadonlyMap<string, Row>) {
  const changed = [...after.values()].filter((row) => before.get(row.key)?.value !== row.value);
  const gone = [...before.keys()].filter((own) => !after.has(own));
  return { changed, gone };
}

test("delta applied to the old list is the new list", () => {
  fc.assert(
    fc.property(list, list, (before, after) => {
      const [old, next] = [indexRows(before, keyOf), indexRows(after, keyOf)];
      expect(new Map(applyDeltas(old, [diff(old, next)], keyOf))).toEqual(next);
    }),
    { numRuns: 2_000 },
  );
});

test("several deltas in one frame are applied in order", () => {
  fc.assert(
    fc.property(fc.array(list, { minLength: 1, maxLength: 6 }), (lists) => {
      const all = lists.map((rows) => indexRows(rows, keyOf));
      const deltas = all.slice(1).map((next, place) => diff(all[place] ?? new Map(), next));
      const [first, last] = [all[0] ?? new Map(), all.at(-1)];
      expect(new Map(applyDeltas(first, deltas, keyOf))).toEqual(last);
    }),
    { numRuns: 2_000 },
  );
});

test("old list stays as it is, and is returned if nothing has changed", () => {
  const old = indexRows([{ key: "a", value: 1 }], keyOf);
  expect(applyDeltas(old, [{}, { changed: [], gone: [] }], keyOf)).toBe(old);
  applyDeltas(old, [{ gone: ["a"], changed: [{ key: "b", value: 2 }] }], keyOf);
  expect([...old.keys()]).toEqual(["a"]);
});

test("row that is gone and back in one delta stays", () => {
  const old = indexRows([{ key: "a", value: 1 }], keyOf);
  const next = applyDeltas(old, [{ gone: ["a"], changed: [{ key: "a", value: 2 }] }], keyOf);
  expect(next.get("a")?.value).toBe(2);
});
