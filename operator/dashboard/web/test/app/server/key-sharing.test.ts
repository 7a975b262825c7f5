import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { answerTabs, askTabs } from "../../../src/app/server/key-sharing";
import { passTimeout } from "./key-timeout";

const ends: (() => void)[] = [];
const any = (): boolean => true;

function openTab(readKey: () => string | undefined): void {
  ends.push(answerTabs(readKey));
}

/** Another page on the channel, which sends what it likes. */
function answerWith(data: unknown): void {
  const channel = new BroadcastChannel("trellis-key");
  channel.onmessage = () => {
    // Once: two such pages would answer each other for ever.
    channel.onmessage = null;
    channel.postMessage(data);
  };
  ends.push(() => channel.close());
}

/** Asks until the time-out, and expects no key. */
async function expectNone(): Promise<void> {
  const asked = askTabs(any);
  await passTimeout();
  expect(await asked).toBeUndefined();
}

beforeEach(() => {
  // Without a fake, a busy machine could let the time-out pass before an answer arrives.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
});

afterEach(() => {
  for (const end of ends.splice(0)) end();
  vi.useRealTimers();
});

test("tab without a key gets it from another tab", async () => {
  openTab(() => undefined);
  openTab(() => "a-key");
  expect(await askTabs(any)).toBe("a-key");
});

test("tab waits no longer than the time-out if no other tab has a key", async () => {
  openTab(() => undefined);
  await expectNone();
});

test("tab whose key was refused does not answer any more", async () => {
  let key: string | undefined = "a-key";
  openTab(() => key);
  expect(await askTabs(any)).toBe("a-key");
  key = undefined;
  await expectNone();
});

test("key that the server has refused before is passed over", async () => {
  openTab(() => "old");
  openTab(() => "new");
  expect(await askTabs((key) => key !== "old")).toBe("new");
});

test("closed tab does not answer", async () => {
  answerTabs(() => "a-key")();
  await expectNone();
});

test("answer that is no key is ignored", async () => {
  for (const data of ["a-key", null, {}, { key: 1 }, { key: "" }, { key: "two\nlines" }, { key: "x".repeat(300) }, "key?"]) answerWith(data);
  await expectNone();
});
