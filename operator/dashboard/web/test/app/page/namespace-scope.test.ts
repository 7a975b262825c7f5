import { expect, test } from "vitest";

import { chooseNamespace } from "../../../src/app/page/namespace-scope";

const own = [
  { name: "a", jobs: 0, maySubmit: true },
  { name: "b", jobs: 2, maySubmit: false },
  { name: "c", jobs: 2, maySubmit: true },
];

test("the namespace of the context is chosen if the user may list it", () => {
  expect(chooseNamespace(own, "a")).toBe("a");
});

test("else the namespace with the most jobs is chosen, by name", () => {
  expect(chooseNamespace(own, "default")).toBe("b");
});

test("without a known namespace, the one of the context is tried", () => {
  expect(chooseNamespace([], "default")).toBe("default");
});
