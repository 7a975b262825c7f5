import { expect, test } from "vitest";

import { find } from "../../../src/app/find/find";
import { makeJob } from "../make";

const all = {
  jobs: [makeJob("my-bert"), makeJob("bert", { user: "ada" }), makeJob("llm", { reason: "QuotaExceeded", message: "bert" })],
  queues: ["bert-queue", "vision"],
  nodes: ["gpu-0", "gpu-10"],
  fixed: [{ kind: "page", label: "Home", href: "/" }] as const,
};

const labels = (text: string): string[] => find(text, all).map((hit) => hit.label);

test("names that begin with the text come first, and text elsewhere last", () => {
  expect(labels("bert")).toEqual(["bert-queue", "team-a/bert", "team-a/my-bert", "team-a/llm"]);
});

test("all words must match, in any case", () => {
  expect(labels("BERT ada")).toEqual(["team-a/bert"]);
  expect(labels("gpu-1")).toEqual(["gpu-10"]);
  expect(labels("nothing")).toEqual([]);
});

test("without a text, only pages are found", () => {
  expect(labels(" ")).toEqual(["Home"]);
});
