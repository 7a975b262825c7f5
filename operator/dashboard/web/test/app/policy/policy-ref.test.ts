import { expect, test } from "vitest";

import { parsePath, urls } from "../../../src/app/page/route";
import { findPolicies, isIdOf, refOfId } from "../../../src/app/policy/policy-ref";
import { makeAnswer, makeJobPolicy, makeQuotaPolicy } from "./make";

test("id of a decision names its object", () => {
  expect(refOfId("h100/small")).toEqual({ kind: "ClusterJobPolicy", name: "h100" });
  expect(refOfId("ml/own-images/0")).toEqual({ kind: "JobPolicy", namespace: "ml", name: "own-images" });
});

test("fixed rule and other text name no object", () => {
  for (const id of ["final-pod", "", "/", "a/", "/b", "a/b/c/d"]) expect(refOfId(id), id).toBeUndefined();
});

test("id belongs to the object of its kind, namespace and name", () => {
  const own = makeJobPolicy("images", { kind: "JobPolicy", namespace: "ml" });
  expect(isIdOf("ml/images/0", own)).toBe(true);
  expect(isIdOf("other/images/0", own)).toBe(false);
  expect(isIdOf("images/0", own)).toBe(false);
  expect(isIdOf("images/0", makeJobPolicy("images"))).toBe(true);
});

test("URL of a policy leads to it, also if others have its name", () => {
  const wanted = makeJobPolicy("images", { kind: "JobPolicy", namespace: "ml" });
  const answer = makeAnswer({ jobPolicies: [makeJobPolicy("images"), wanted, makeJobPolicy("x")], quotaPolicies: [makeQuotaPolicy("images")] });
  const url = new URL(urls.policy(wanted), "http://127.0.0.1:4810");
  expect(parsePath(url.pathname)).toEqual({ page: "policy", name: "images" });
  expect(url.searchParams.get("namespace")).toBe("ml");
  const found = findPolicies(answer, "images", url.searchParams.get("kind") ?? undefined);
  expect(found).toEqual({ jobPolicies: [wanted], quotaPolicies: [] });
  const all = findPolicies(answer, "images");
  expect(all.jobPolicies.length + all.quotaPolicies.length).toBe(3);
});
