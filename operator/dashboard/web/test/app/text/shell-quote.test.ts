import { execFileSync } from "node:child_process";

import fc from "fast-check";
import { expect, test } from "vitest";

import { command, quote } from "../../../src/app/text/shell-quote";

test("plain arguments stay readable", () => {
  expect(command("trellis", "logs", "llm", "-n", "ml", "-f")).toBe("trellis logs llm -n ml -f");
  expect(quote("podgroup/sweep")).toBe("podgroup/sweep");
});

test("other arguments are quoted", () => {
  expect(quote("")).toBe("''");
  expect(quote("it's")).toBe(`'it'\\''s'`);
  expect(quote("$(reboot)")).toBe("'$(reboot)'");
  expect(quote("/queue?q=a&b")).toBe("'/queue?q=a&b'");
  expect(quote("~")).toBe("'~'");
  expect(quote("=ls")).toBe("'=ls'");
  expect(quote("a\nreboot\r")).toBe("'a reboot '");
});

test("shell gives back each argument, and runs nothing else", () => {
  const all = fc.sample(fc.string({ unit: "binary" }), { numRuns: 300, seed: 1 });
  const words = [...all, "`id`", "a'b\"c", "\\", "*", "!!", "#", "-n", "a b"].filter((text) => text.isWellFormed());
  const lines = words.map((word) => `printf '%s\\0' ${quote(word)}`).join("\n");
  const printed = execFileSync("sh", ["-c", lines], { encoding: "utf8" }).split("\0").slice(0, -1);
  expect(printed).toEqual(words.map((word) => word.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g, " ")));
});
