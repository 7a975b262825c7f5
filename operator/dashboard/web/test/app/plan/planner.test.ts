import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { refusal, refuse, session } from "../../../src/app/live/store";
import { EXAMPLE } from "../../../src/app/plan/draft";
import { bringBack, cancelPlan, draft, isPlanning, namespace, outcome, planDraft, replaceDraft, replaced, setNamespace, setText, showExample } from "../../../src/app/plan/planner";
import type { PlanAnswer } from "../../../src/wire/plan";

const ANSWER: PlanAnswer = { jobs: [], notes: [], problems: [{ line: 1, column: 1, field: "", message: "is no YAML", snippet: "" }] };

/** Answers each plan. Returns the bodies that were sent. */
function serve(answer: () => Response | Promise<Response>): unknown[] {
  const sent: unknown[] = [];
  vi.stubGlobal("fetch", async (_: string, init: RequestInit) => {
    sent.push(JSON.parse(String(init.body)));
    const aborted = new Promise<never>((_, reject) => init.signal?.addEventListener("abort", () => reject(init.signal?.reason)));
    return Promise.race([answer(), aborted]);
  });
  return sent;
}

const failure = (status: number, kind: string) => Response.json({ error: { kind, message: "the cause" } }, { status });

beforeEach(() => {
  session.value = { user: "alice", mode: "local", version: "1", context: null, namespace: "team-a", may: { allJobs: true, queues: true, nodes: true }, time: "2026-01-01T00:00:00Z" };
  replaceDraft({ text: "a: 1", namespace: undefined }, "test");
  replaced.value = undefined;
});

afterEach(() => {
  vi.unstubAllGlobals();
  refusal.value = undefined;
});

test("plan has the text, and a namespace only if it is not the one of the context", async () => {
  const sent = serve(() => Response.json(ANSWER));
  setNamespace("team-a");
  await planDraft();
  setNamespace("ml");
  await planDraft();
  setNamespace("");
  await planDraft();
  expect(sent).toEqual([{ yaml: "a: 1" }, { namespace: "ml", yaml: "a: 1" }, { yaml: "a: 1" }]);
  expect(outcome.value).toMatchObject({ answer: ANSWER, draft: { text: "a: 1" } });
});

test("namespace is that of the context until another one is chosen", () => {
  expect(namespace.value).toBe("team-a");
  setNamespace("ml");
  expect(namespace.value).toBe("ml");
});

test("page of a cluster has no context, so that only a chosen namespace is sent", async () => {
  session.value = session.value && { ...session.value, mode: "cluster", namespace: "default" };
  const sent = serve(() => Response.json(ANSWER));
  expect(namespace.value).toBe("");
  await planDraft();
  setNamespace("default");
  await planDraft();
  setNamespace("");
  await planDraft();
  expect(sent).toEqual([{ yaml: "a: 1" }, { namespace: "default", yaml: "a: 1" }, { yaml: "a: 1" }]);
});

test("example keeps the namespace", () => {
  setNamespace("ml");
  showExample();
  expect(draft.value).toEqual({ text: EXAMPLE, namespace: "ml" });
});

test("cancelled plan leaves the last outcome, and the next one can start", async () => {
  serve(() => Response.json(ANSWER));
  await planDraft();
  const before = outcome.value;
  serve(() => new Promise(() => undefined));
  const running = planDraft();
  expect(isPlanning.value).toBe(true);
  cancelPlan();
  await running;
  expect(isPlanning.value).toBe(false);
  expect(outcome.value).toBe(before);
  const sent = serve(() => Response.json(ANSWER));
  await planDraft();
  expect(sent).toHaveLength(1);
});

test("second plan does not start while the first runs", async () => {
  const sent = serve(() => Response.json(ANSWER));
  await Promise.all([planDraft(), planDraft()]);
  expect(sent).toHaveLength(1);
});

test("failure is the outcome", async () => {
  for (const [status, kind] of [[404, "notFound"], [429, "busy"], [502, "unreachable"], [400, "invalid"]] as const) {
    serve(() => failure(status, kind));
    await planDraft();
    expect(outcome.value).toMatchObject({ error: { kind, message: "the cause" } });
  }
});

test("text that the server would not read is not sent", async () => {
  const sent = serve(() => Response.json(ANSWER));
  setText("a".repeat(300_000));
  await planDraft();
  expect(sent).toEqual([]);
  expect(outcome.value).toMatchObject({ error: { kind: "invalid" } });
});

test("refused user sees no answer any more", async () => {
  serve(() => Response.json(ANSWER));
  await planDraft();
  refuse({ kind: "unauthorized", message: "the token has ended" });
  expect(outcome.value).toBeUndefined();
});

test("refused credential refuses the page", async () => {
  serve(() => failure(401, "unauthorized"));
  await planDraft();
  expect(refusal.value?.kind).toBe("unauthorized");
  expect(outcome.value).toBeUndefined();
});

test("replaced text can be brought back, and the example is not worth it", () => {
  replaceDraft({ text: EXAMPLE, namespace: undefined }, "the example");
  expect(replaced.value).toMatchObject({ by: "the example", draft: { text: "a: 1" } });
  bringBack();
  expect(draft.value.text).toBe("a: 1");
  expect(replaced.value).toBeUndefined();
});
