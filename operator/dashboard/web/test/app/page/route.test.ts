import fc from "fast-check";
import { expect, test } from "vitest";

import { parsePath, urls } from "../../../src/app/page/route";

const pathOf = (href: string): string => new URL(href, "http://127.0.0.1:4810").pathname;

test("paths name pages", () => {
  expect(parsePath("/")).toEqual({ page: "home" });
  expect(parsePath("/queue")).toEqual({ page: "jobs" });
  expect(parsePath("/queue/")).toEqual({ page: "jobs" });
  expect(parsePath("/queues")).toEqual({ page: "queues" });
  expect(parsePath("/queues/vision")).toEqual({ page: "queue", name: "vision" });
  expect(parsePath("/nodes")).toEqual({ page: "nodes" });
  expect(parsePath("/nodes/gpu-0.example.org")).toEqual({ page: "node", name: "gpu-0.example.org" });
  expect(parsePath("/policies")).toEqual({ page: "policies" });
  expect(parsePath("/policies/h100")).toEqual({ page: "policy", name: "h100" });
  expect(parsePath("/plan")).toEqual({ page: "plan" });
  expect(parsePath("/what-if")).toEqual({ page: "whatIf" });
  expect(parsePath("/jobs/ml/podgroup.sweep")).toEqual({ page: "job", namespace: "ml", name: "podgroup.sweep" });
});

test("other paths are not found", () => {
  for (const path of ["/jobs", "/jobs/ml", "/jobs/ml/llm/logs", "/queue/x", "/plan/x", "/what-if/x", "/nodes/a/b", "/policies/a/b", "/x", "/%", "/nodes/%ff"]) {
    expect(parsePath(path), path).toEqual({ page: "notFound" });
  }
});

test("name survives its URL, whatever it holds", () => {
  // A URL cannot hold a lone surrogate, and an empty name has no page.
  const name = fc.string({ unit: "grapheme", minLength: 1 }).filter((text) => text.isWellFormed());
  fc.assert(
    fc.property(name, name, (a, b) => {
      fc.pre(![a, b].some((text) => /^\.{1,2}$/.test(text)));
      expect(parsePath(pathOf(urls.job({ namespace: a, name: b })))).toEqual({ page: "job", namespace: a, name: b });
      expect(parsePath(pathOf(urls.node(a)))).toEqual({ page: "node", name: a });
      expect(parsePath(pathOf(urls.queue(a)))).toEqual({ page: "queue", name: a });
      expect(parsePath(pathOf(urls.policy({ kind: "JobPolicy", namespace: b, name: a })))).toEqual({ page: "policy", name: a });
    }),
    { numRuns: 2_000 },
  );
});

test("link to any name stays on this server", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (a, b) => {
      fc.pre(a.isWellFormed() && b.isWellFormed());
      const url = new URL(urls.job({ namespace: a, name: b }), "http://127.0.0.1:4810");
      expect(url.origin).toBe("http://127.0.0.1:4810");
      expect(url.search + url.hash).toBe("");
    }),
  );
});

test("query leaves out what is not set", () => {
  expect(urls.jobs()).toBe("/queue");
  expect(urls.jobs({ q: "a&b", state: undefined, text: "" })).toBe("/queue?q=a%26b");
  expect(urls.timeline({ q: "x" })).toBe("/queue?q=x&view=timeline");
  expect(urls.nodes({ at: "gpu-0" })).toBe("/nodes?at=gpu-0");
});
