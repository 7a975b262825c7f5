/** How old the data on the screen are. */

import { type ReadonlySignal, computed } from "@preact/signals";

import { now } from "../server/clock";
import { type ListHead, type Problem, nodes, queue } from "./store";

/** Silence after which data count as stale. The server speaks every 5 s of jobs, every 10 s of nodes. */
const STALE_SECONDS = { queue: 15, nodes: 25 } as const;

/** Freshness of a list. */
export type Freshness =
  | { readonly state: "loading" }
  /** Nothing could be loaded yet. */
  | { readonly state: "failed"; readonly problem: Problem }
  | { readonly state: "fresh"; readonly time: Date }
  /** The rows on the screen are old. Without a problem, the server is silent. */
  | { readonly state: "stale"; readonly time: Date; readonly problem: Problem | undefined };

/** Freshness of jobs and queues. */
export const queueFreshness = watch(queue, STALE_SECONDS.queue);

/** Freshness of nodes. */
export const nodesFreshness = watch(nodes, STALE_SECONDS.nodes);

/** The clock ticks each second. A new object each time would draw the whole page again. */
function watch(list: ListHead, limit: number): ReadonlySignal<Freshness> {
  let last: Freshness = { state: "loading" };
  return computed(() => {
    const next = judge(list, limit);
    if (!isSame(last, next)) last = next;
    return last;
  });
}

function isSame(a: Freshness, b: Freshness): boolean {
  const facts = (own: Freshness): unknown[] => [
    own.state,
    "time" in own ? own.time : undefined,
    "problem" in own ? own.problem : undefined,
  ];
  const others = facts(b);
  return facts(a).every((fact, place) => fact === others[place]);
}

function judge(list: ListHead, limit: number): Freshness {
  const time = list.time.value;
  const heard = list.heard.value;
  const problem = list.problem.value;
  if (!time || !heard) return problem ? { state: "failed", problem } : { state: "loading" };
  if (problem) return { state: "stale", time, problem };
  const silent = (now.value.getTime() - heard.getTime()) / 1_000;
  return silent > limit ? { state: "stale", time, problem } : { state: "fresh", time };
}
