/** The clock of the server. All ages on the page use it, since the browser's clock may be wrong. */

import { computed, signal } from "@preact/signals";

/** Server time minus `performance.now()`, in milliseconds. */
const base = signal(Date.now() - performance.now());

/** The server's time now, once each second. */
export const now = signal(new Date());

/** Milliseconds by which the browser's clock is ahead of the server's. */
export const skew = computed(() => Date.now() - performance.now() - base.value);

/** The `Date` header has whole seconds, so a smaller difference says nothing. */
const PRECISION_MS = 2_000;

/** Returns the server's time at this moment. */
export function serverTime(): Date {
  return new Date(base.peek() + performance.now());
}

/** Notes the server's time, as an answer has just stated it. */
export function noteServerTime(stated: Date): void {
  const next = stated.getTime() - performance.now();
  if (Number.isNaN(next) || Math.abs(next - base.peek()) < PRECISION_MS) return;
  base.value = next;
  tick();
}

/** Starts the clock. */
export function startClock(): void {
  tick();
  setInterval(tick, 1_000);
  document.addEventListener("visibilitychange", tick);
}

function tick(): void {
  if (!document.hidden) now.value = serverTime();
}
