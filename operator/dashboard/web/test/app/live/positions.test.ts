import fc from "fast-check";
import { expect, test } from "vitest";

import { applyJobDeltas } from "../../../src/app/live/positions";
import type { JobDelta } from "../../../src/app/live/positions";
import type { JobState } from "../../../src/wire/cluster";

const keyOf = (job: JobState): string => `${job.metadata.namespace}/${job.metadata.name}`;

/** The state of the cluster: the jobs of each queue in their order, and the jobs that run. */
interface World {
  readonly waiting: readonly (readonly [name: string, queue: string])[];
  readonly running: readonly string[];
}

const name = fc.constantFrom("a", "b", "c", "d", "e", "f", "g");
const world: fc.Arbitrary<World> = fc
  .uniqueArray(fc.tuple(name, fc.constantFrom("research", "vision", "run")), { selector: ([own]) => own })
  .map((jobs) => ({
    waiting: jobs.filter(([, queue]) => queue !== "run"),
    running: jobs.filter(([, queue]) => queue === "run").map(([own]) => own),
  }));

function job(own: string, queue: string, position?: number): JobState {
  const state = { metadata: { namespace: "ml", name: own }, queue, ...(position && { position }) };
  return state as unknown as JobState;
}

function rows({ waiting, running }: World): Map<string, JobState> {
  const counts = new Map<string, number>();
  const jobs = waiting.map(([own, queue]) => {
    counts.set(queue, (counts.get(queue) ?? 0) + 1);
    return job(own, queue, counts.get(queue));
  });
  const all = [...jobs, ...running.map((own) => job(own, "research"))];
  return new Map(all.map((own) => [keyOf(own), own]));
}

function orders(jobs: ReadonlyMap<string, JobState>): Map<string, string[]> {
  const found = new Map<string, string[]>();
  const waiting = [...jobs.values()].filter((own) => own.position !== undefined);
  waiting.sort((a, b) => (a.position ?? 0) - (b.position ?? 0));
  for (const own of waiting) found.set(own.queue, [...(found.get(own.queue) ?? []), keyOf(own)]);
  return found;
}

/** The delta as `src/live` of the server makes it: no row for another position alone. */
function diff(before: ReadonlyMap<string, JobState>, after: ReadonlyMap<string, JobState>): JobDelta {
  const waits = (own: JobState | undefined): boolean => own?.position !== undefined;
  const changed = [...after].filter(([key, own]) => {
    const old = before.get(key);
    return !old || old.queue !== own.queue || waits(old) !== waits(own);
  });
  const [old, now] = [orders(before), orders(after)];
  const news = [...now].filter(([queue, order]) => {
    const stay = (old.get(queue) ?? []).filter((key) => order.includes(key));
    const come = order.filter((key) => !(old.get(queue) ?? []).includes(key));
    return [...stay, ...come].join() !== order.join();
  });
  return {
    changed: changed.map(([, own]) => own),
    gone: [...before.keys()].filter((key) => !after.has(key)),
    ...(news.length && { orders: Object.fromEntries(news) }),
  };
}

test("each job has the position that the server knows, after any changes", () => {
  fc.assert(
    fc.property(fc.array(world, { minLength: 2, maxLength: 5 }), (worlds) => {
      const states = worlds.map(rows);
      const deltas = states.slice(1).map((next, place) => diff(states[place] ?? new Map(), next));
      const last = states.at(-1) ?? new Map<string, JobState>();
      expect(new Map(applyJobDeltas(states[0] ?? new Map(), deltas, keyOf))).toEqual(last);
    }),
    { numRuns: 5_000 },
  );
});

test("start of the first job moves the others up without their rows", () => {
  const before = rows({ waiting: [["a", "research"], ["b", "research"], ["c", "research"]], running: [] });
  const delta: JobDelta = { changed: [job("a", "research")] };
  const after = applyJobDeltas(before, [delta], keyOf);
  expect([...after.values()].map(({ position }) => position)).toEqual([undefined, 1, 2]);
  expect(before.get("ml/b")?.position).toBe(2);
});

test("change that concerns no waiting job renumbers nothing", () => {
  const before = rows({ waiting: [["a", "research"]], running: ["r"] });
  const after = applyJobDeltas(before, [{ gone: ["ml/r"] }], keyOf);
  expect(after.get("ml/a")).toBe(before.get("ml/a"));
});
