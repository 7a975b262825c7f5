import fc from "fast-check";
import { expect, test } from "vitest";

import { type Json, writeYaml } from "../../../src/app/text/yaml";

test("object is written as kubectl writes it", () => {
  const text = writeYaml({
    apiVersion: "trellis.dev/v1alpha1",
    metadata: { name: "llm", labels: {}, annotations: { "trellis.dev/a": "b" } },
    spec: {
      suspend: false,
      taskGroups: [
        { name: "worker", replicas: 8, command: ["sh", "-c"], image: "ghcr.io/example/train:1.4" },
        { name: "eval", args: [], env: [{ name: "A", value: "1" }] },
      ],
      script: "set -e\n  indented\n\ndone\n",
      nothing: undefined,
    },
  });
  expect(text).toBe(`apiVersion: trellis.dev/v1alpha1
metadata:
  name: llm
  labels: {}
  annotations:
    trellis.dev/a: b
spec:
  suspend: false
  taskGroups:
  - name: worker
    replicas: 8
    command:
    - sh
    - "-c"
    image: ghcr.io/example/train:1.4
  - name: eval
    args: []
    env:
    - name: A
      value: "1"
  script: |
    set -e
      indented

    done
`);
});

test("text that YAML would read as something else is quoted", () => {
  for (const text of ["true", "no", "Null", "1", "0x10", "1e3", "12:30", "2026-01-01", "~", "- a", "a: b", "a #b", "", " a", "*a", "&a", "!x", "%x", "@x", "`x`", "a:", ".5", "...", "{}", "a\tb"]) {
    expect(writeYaml({ a: text }), text).toBe(`a: ${JSON.stringify(text)}\n`);
  }
  for (const text of ["8Gi", "500m", "a b", "a-b", "nvidia.com/gpu", "x:y"]) expect(writeYaml({ a: text })).toBe(`a: ${text}\n`);
});

/** Reads flat maps of what `writeYaml` writes: enough to show that text is not changed. */
function readFlat(text: string): Record<string, string> {
  const found: Record<string, string> = {};
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at += 1) {
    const match = /^(\w+): (.*)$/.exec(lines[at] ?? "");
    if (!match) continue;
    const [, key = "", value = ""] = match;
    if (value === "|" || value === "|-") {
      const body: string[] = [];
      while (lines[at + 1] !== undefined && (lines[at + 1]?.startsWith("  ") || lines[at + 1] === "")) body.push(lines[(at += 1)]?.slice(2) ?? "");
      if (body.at(-1) === "" && lines[at + 1] === undefined) body.pop();
      found[key] = body.join("\n") + (value === "|" ? "\n" : "");
    } else found[key] = value.startsWith('"') ? (JSON.parse(value) as string) : value;
  }
  return found;
}

test("text is the same after it was read again", () => {
  const text = fc.oneof(
    fc.string({ unit: "grapheme" }),
    fc.array(fc.constantFrom("a", " ", "\n", ":", "#", "-", "'", '"', "\\", "1", "\t"), { maxLength: 12 }).map((all) => all.join("")),
  );
  fc.assert(
    fc.property(text, text, (a, b) => {
      expect(readFlat(writeYaml({ a, b }))).toEqual({ a, b });
    }),
    { numRuns: 5_000 },
  );
});

test("no unseen character is left, and nesting of any shape is written", () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: "grapheme" }), (value) => {
      const text = writeYaml({ a: value } as Json);
      expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/);
      expect(text.endsWith("\n")).toBe(true);
    }),
  );
});
