/** Steps of the time until the expected end of a job. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** A step of time left. */
export interface TimeStep {
  /** Upper bound, in milliseconds; the bound itself belongs to the next step. */
  readonly below: number;
  readonly label: string;
}

/** The steps from the shortest time left. Overdue jobs are in the first step. */
export const TIME_STEPS: readonly TimeStep[] = [
  { below: 15 * MINUTE, label: "under 15m" },
  { below: HOUR, label: "under 1h" },
  { below: 4 * HOUR, label: "under 4h" },
  { below: 24 * HOUR, label: "under 24h" },
  { below: Number.POSITIVE_INFINITY, label: "24h or more" },
];

/** Returns the step of an expected end, or undefined if the end is unknown. Times are in milliseconds. */
export function timeStep(expectedEnd: string | undefined, now: number): number | undefined {
  const end = Date.parse(expectedEnd ?? "");
  if (Number.isNaN(end)) return undefined;
  return TIME_STEPS.findIndex((step) => end - now < step.below);
}
