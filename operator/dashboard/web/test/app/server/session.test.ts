import { afterEach, beforeEach, expect, test, vi } from "vitest";

import type { Session } from "../../../src/wire/cluster";
import { passTimeout } from "./key-timeout";

/** A tab: modules with their own state, as each tab has them. */
interface Tab {
  readonly session: typeof import("../../../src/app/server/session");
  readonly keys: typeof import("../../../src/app/server/session-key");
}

const ends: (() => void)[] = [];

async function openTab(): Promise<Tab> {
  vi.resetModules();
  const tab = { session: await import("../../../src/app/server/session"), keys: await import("../../../src/app/server/session-key") };
  const sharing = await import("../../../src/app/server/key-sharing");
  ends.push(sharing.answerTabs(tab.keys.readKey));
  return tab;
}

const SESSION: Session = {
  user: "alice",
  mode: "local",
  version: "0.1.0",
  context: null,
  namespace: "team-a",
  may: { allJobs: true, queues: true, nodes: true },
  time: "2026-01-01T00:00:00Z",
};

/** Answers as a server with this key. Undefined: a server that needs none. */
function serve(key: string | undefined): () => readonly (string | null)[] {
  const sent: (string | null)[] = [];
  vi.stubGlobal("fetch", async (_: string, init: RequestInit) => {
    const own = new Headers(init.headers).get("Trellis-Key");
    sent.push(own);
    if (key === undefined || own === key) return Response.json(SESSION);
    return Response.json({ error: { kind: "key", message: "this page has no key" } }, { status: 401 });
  });
  return () => sent;
}

beforeEach(() => {
  // Without a fake, a busy machine could let the time-out pass before an answer arrives.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  vi.stubGlobal("document", { hidden: true });
  // Node.js has no sessionStorage, so that a key is kept in memory.
  vi.stubGlobal("sessionStorage", undefined);
});

afterEach(() => {
  for (const end of ends.splice(0)) end();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test("new tab opens its session with the key of another tab", async () => {
  const sent = serve("k");
  const first = await openTab();
  first.keys.keepKey("k");
  const second = await openTab();
  await expect(second.session.openSession()).rejects.toMatchObject({ kind: "key" });
  expect(await second.session.borrowKey()).toBe(true);
  expect(await second.session.openSession()).toEqual(SESSION);
  expect(sent()).toEqual([null, "k"]);
});

test("refused key is neither sent again nor given to another tab", async () => {
  serve("new");
  const old = await openTab();
  old.keys.keepKey("old");
  await expect(old.session.openSession()).rejects.toMatchObject({ kind: "key" });
  expect(old.keys.readKey()).toBeUndefined();
  const second = await openTab();
  const borrowed = second.session.borrowKey();
  await passTimeout();
  expect(await borrowed).toBe(false);
});

test("tab with the key of a server that has ended gets the new one, also if another old tab answers first", async () => {
  serve("new");
  for (const key of ["old", "old", "new"]) (await openTab()).keys.keepKey(key);
  const tab = await openTab();
  tab.keys.keepKey("old");
  await expect(tab.session.openSession()).rejects.toMatchObject({ kind: "key" });
  expect(await tab.session.borrowKey()).toBe(true);
  expect(await tab.session.openSession()).toEqual(SESSION);
});

test("page in a cluster never asks other tabs", async () => {
  const sent = serve(undefined);
  const other = await openTab();
  other.keys.keepKey("k");
  const tab = await openTab();
  expect(await tab.session.openSession()).toEqual(SESSION);
  expect(sent()).toEqual([null]);
  expect(await tab.session.borrowKey()).toBe(false);
  expect(tab.keys.readKey()).toBeUndefined();
});
