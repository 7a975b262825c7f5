/** Reads data that no stream carries: again after some seconds, and when something has changed. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import type { WireError } from "../../wire/cluster";
import { serverTime } from "../server/clock";
import { RequestError, get, toRequestError } from "../server/request";
import { refuse } from "./store";
import { whenShown } from "./visibility";

/** The last answer, and the failure since then. */
export interface Polled<Answer> {
  readonly answer: Answer | undefined;
  readonly problem: (WireError & { readonly since: Date }) | undefined;
}

/** Shortest time between two reads, if something changes often. */
const SHORTEST_MS = 1_500;
/** Longest pause after failures in a row. */
const LONGEST_MS = 60_000;

/**
 * Reads a path again and again while the component is mounted.
 *
 * An undefined path is not read. `trigger` is a value whose change asks for a read at once.
 */
export function usePolled<Answer>(path: string | undefined, everyMs: number, trigger: unknown): Polled<Answer> {
  // With its path: an answer about another object must not be shown for one frame.
  const answer = useSignal<{ readonly path: string; readonly value: Answer } | undefined>(undefined);
  const problem = useSignal<(WireError & { readonly since: Date }) | undefined>(undefined);
  const wake = useSignal<(() => void) | undefined>(undefined);

  useEffect(() => {
    if (path === undefined) return undefined;
    const stop = new AbortController();
    problem.value = undefined;
    void loop(path, stop.signal);
    return () => stop.abort();
  }, [path]);

  useEffect(() => wake.peek()?.(), [trigger]);

  async function loop(address: string, signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      await whenShown();
      const startedAt = performance.now();
      let wait = everyMs;
      try {
        const value = await get<Answer>(address, signal);
        if (signal.aborted) return;
        failures = 0;
        answer.value = { path: address, value };
        problem.value = undefined;
      } catch (thrown) {
        if (signal.aborted) return;
        failures += 1;
        wait = pauseOf(failures, everyMs, thrown);
        report(thrown);
      }
      const left = SHORTEST_MS - (performance.now() - startedAt);
      if (left > 0) await sleep(left, signal);
      await sleep(wait, signal, (end) => {
        wake.value = end;
      });
    }
  }

  function report(error: unknown): void {
    const known = toRequestError(error);
    if (known.kind === "key" || known.kind === "unauthorized") refuse(known);
    // A revoked right empties the view.
    if (known.kind === "denied") answer.value = undefined;
    const before = problem.peek();
    const since = before?.kind === known.kind ? before.since : serverTime();
    problem.value = { kind: known.kind, message: known.message, since };
  }

  const held = answer.value;
  return { answer: held?.path === path ? held?.value : undefined, problem: problem.value };
}

function pauseOf(failures: number, everyMs: number, error: unknown): number {
  const asked = error instanceof RequestError ? (error.retryAfter ?? 0) * 1_000 : 0;
  return Math.max(asked, Math.min(everyMs * 2 ** (failures - 1), LONGEST_MS));
}

function sleep(ms: number, signal: AbortSignal, onStart?: (end: () => void) => void): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
    onStart?.(end);
  });
}
