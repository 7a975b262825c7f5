/** Pauses between requests that fail. Pure. */

/** Seconds before each retry. The last one repeats. */
const PAUSES = [1, 2, 4, 8, 15, 30] as const;

/** Seconds before a refused credential is tried again: a person or a proxy must renew it first. */
const REFUSED_PAUSE = 30;

/**
 * Returns the seconds before the next request after this many failures in a row.
 *
 * `random` is in [0, 1). It spreads the requests of many tabs over a fifth of the pause.
 */
export function pauseAfter(
  failures: number,
  kind: string,
  retryAfter: number | undefined,
  random: number,
): number {
  const refused = kind === "unauthorized" || kind === "denied";
  const own = refused ? REFUSED_PAUSE : (PAUSES[Math.min(Math.max(failures, 1), PAUSES.length) - 1] ?? 30);
  const spread = own * (0.9 + random * 0.2);
  return Math.max(spread, retryAfter ?? 0);
}
