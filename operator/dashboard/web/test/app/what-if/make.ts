/** Forecasts for tests. */

import type { ForecastStatus, MovedJob } from "../../../src/wire/forecast";

/** Time of the forecasts. */
export const NOW = "2026-01-01T10:00:00Z";

/** Returns the time so many minutes later. */
export function after(minutes: number): string {
  return new Date(Date.parse(NOW) + minutes * 60_000).toISOString();
}

/** Returns a moved job. */
export function makeMoved(name: string, more: Partial<MovedJob>): MovedJob {
  return { namespace: "team-a", name, queue: "research", gpus: 8, effect: "Earlier", ...more };
}

/** Returns an answer. */
export function makeStatus(jobs: readonly MovedJob[], unmoved = 0): ForecastStatus {
  return { time: NOW, jobs, unmoved };
}
