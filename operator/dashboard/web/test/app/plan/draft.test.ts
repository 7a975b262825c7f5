import fc from "fast-check";
import { expect, test } from "vitest";

import { EXAMPLE, fitsRequest, joinFiles, offsetOf } from "../../../src/app/plan/draft";

test("line and column from 1 give the offset", () => {
  expect(offsetOf("ab\ncd\n", 1, 1)).toBe(0);
  expect(offsetOf("ab\ncd\n", 2, 2)).toBe(4);
  expect(offsetOf("ab\ncd\n", 3, 1)).toBe(6);
});

test("column counts characters, not units of the text", () => {
  const text = "a: é😀x";
  expect(text.slice(offsetOf(text, 1, 6))).toBe("x");
});

test("place outside the text gives the nearest one", () => {
  expect(offsetOf("ab\ncd", 1, 9)).toBe(2);
  expect(offsetOf("ab\ncd", 9, 1)).toBe(3);
  expect(offsetOf("ab\ncd", 0, 0)).toBe(0);
  expect(offsetOf("", 3, 3)).toBe(0);
});

test("place of each character is found", () => {
  const part = fc.constantFrom("a", "\n", "é", "😀", " ");
  fc.assert(
    fc.property(fc.array(part, { minLength: 1, maxLength: 40 }), fc.nat(), (parts, pick) => {
      const at = pick % parts.length;
      const before = parts.slice(0, at).join("");
      const lines = before.split("\n");
      expect(offsetOf(parts.join(""), lines.length, [...(lines.at(-1) ?? "")].length + 1)).toBe(before.length);
    }),
  );
});

test("several files become documents of one text", () => {
  expect(joinFiles(["\ufeffa: 1\r\nb: 2", "c: 3\n"])).toBe("a: 1\nb: 2\n---\nc: 3\n");
  expect(joinFiles(["a: 1\n"])).toBe("a: 1\n");
});

test("size of the request is measured in bytes of JSON", () => {
  expect(fitsRequest({ yaml: EXAMPLE })).toBe(true);
  expect(fitsRequest({ yaml: "a".repeat(262_144 - 11) })).toBe(true);
  expect(fitsRequest({ yaml: "a".repeat(262_144 - 10) })).toBe(false);
  expect(fitsRequest({ yaml: "\n".repeat(140_000) })).toBe(false);
});
