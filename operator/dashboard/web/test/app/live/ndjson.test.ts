import fc from "fast-check";
import { expect, test } from "vitest";

import { LineParser } from "../../../src/app/live/ndjson";

test("values do not depend on the borders of chunks", () => {
  const values = fc.array(fc.jsonValue({ maxDepth: 2 }), { maxLength: 6 });
  // Text with characters of several bytes, so that borders fall into them.
  const texts = fc.array(fc.record({ text: fc.string({ unit: "grapheme" }) }), { maxLength: 4 });
  fc.assert(
    fc.property(values, texts, fc.array(fc.nat(40), { maxLength: 60 }), (some, more, cuts) => {
      const all = [...some, ...more];
      const bytes = new TextEncoder().encode(all.map((value) => `${JSON.stringify(value)}\n`).join(""));
      const parser = new LineParser();
      const read: unknown[] = [];
      let at = 0;
      for (const cut of cuts) {
        read.push(...parser.push(bytes.subarray(at, at + cut)));
        at += cut;
      }
      read.push(...parser.push(bytes.subarray(at)));
      expect(read).toEqual(all.map((value) => JSON.parse(JSON.stringify(value))));
    }),
    { numRuns: 2_000 },
  );
});

test("blank lines and CRLF are accepted, and an incomplete line waits", () => {
  const parser = new LineParser();
  const push = (text: string): unknown[] => parser.push(new TextEncoder().encode(text));
  expect(push('\n{"a":1}\r\n\r\n{"b"')).toEqual([{ a: 1 }]);
  expect(push(":2}")).toEqual([]);
  expect(push("\n")).toEqual([{ b: 2 }]);
});

test("line that is no JSON is an error", () => {
  expect(() => new LineParser().push(new TextEncoder().encode("<html>\n"))).toThrow(SyntaxError);
});
