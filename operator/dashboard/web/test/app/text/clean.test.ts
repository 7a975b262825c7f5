import fc from "fast-check";
import { expect, test } from "vitest";

import { cleanLine, cleanLines, cutText } from "../../../src/app/text/clean";

test("text cannot turn the direction of writing or hide itself", () => {
  // The examples of operator/cli/src/output/sanitize.rs.
  const rows: readonly [string, string][] = [
    ["a\x1b[2Jb", "ab"],
    ["\x1b]0;title\x07name", "name"],
    ["one\ntwo\tthree", "one two three"],
    ["a\u202eb \u2066 c\u061c", "ab c"],
    ["bell\x07", "bell"],
    ["  a  b  ", "a b"],
    ["<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"],
  ];
  for (const [text, clean] of rows) expect(cleanLine(text), JSON.stringify(text)).toBe(clean);
  expect(cleanLines("a\tb\x1b[31m\r\n\u202ec\r\n")).toBe("a b\nc\n");
});

test("no control character and no direction mark is left", () => {
  const unsafe = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      expect(cleanLines(text)).not.toMatch(unsafe);
      expect(cleanLine(text)).not.toMatch(/\n/);
    }),
    { numRuns: 2_000 },
  );
});

test("long text is cut, and no character is cut in two", () => {
  expect(cutText("abc", 3)).toEqual({ text: "abc", isCut: false });
  expect(cutText("abcd", 3)).toEqual({ text: "abc", isCut: true });
  expect(cutText("ab😀d", 3)).toEqual({ text: "ab", isCut: true });
  // A repeated prefix of an escape sequence of 1 MiB.
  expect(cleanLine(cutText("\x1b[".repeat(2 ** 19), 600).text).length).toBeLessThan(601);
});
