import { beforeEach, expect, test } from "vitest";

import { queueFreshness } from "../../../src/app/live/freshness";
import { clearQueue, queue, replaceQueue, reportProblem } from "../../../src/app/live/store";
import { now, serverTime } from "../../../src/app/server/clock";

const later = (seconds: number): Date => new Date(serverTime().getTime() + seconds * 1_000);
const load = (): void => replaceQueue({ ordered: true, version: "1", time: "2026-01-01T00:00:00Z", jobs: [], queues: [], notes: [] });

beforeEach(() => {
  clearQueue();
  now.value = serverTime();
});

test("list is loading, fresh, stale after 15 seconds of silence, and fresh again", () => {
  expect(queueFreshness.value.state).toBe("loading");
  load();
  expect(queueFreshness.value.state).toBe("fresh");
  now.value = later(14);
  expect(queueFreshness.value.state).toBe("fresh");
  now.value = later(16);
  expect(queueFreshness.value.state).toBe("stale");
  now.value = serverTime();
  load();
  expect(queueFreshness.value.state).toBe("fresh");
});

test("problem without data is a failure, with data they are stale", () => {
  reportProblem(queue, { kind: "unavailable", message: "" });
  expect(queueFreshness.value.state).toBe("failed");
  load();
  reportProblem(queue, { kind: "unavailable", message: "" });
  expect(queueFreshness.value.state).toBe("stale");
});

test("tick of the clock alone changes nothing", () => {
  load();
  let updates = -1;
  const stop = queueFreshness.subscribe(() => (updates += 1));
  for (let second = 1; second < 10; second += 1) now.value = later(second);
  stop();
  expect(updates).toBe(0);
});
