/** Keeps rows where they are while the user points at them. Pure. */

/** The order on the screen, and how much it differs from the current one. */
export interface PausedOrder {
  readonly keys: readonly string[];
  /** Rows that came, left or moved. */
  readonly changes: number;
}

/** Compares the order on the screen with the current order. */
export function comparePausedOrder(
  shown: readonly string[],
  current: readonly string[],
): PausedOrder {
  const currentKeys = new Set(current);
  const shownKeys = new Set(shown);
  const keptShown = shown.filter((key) => currentKeys.has(key));
  const keptCurrent = current.filter((key) => shownKeys.has(key));
  const left = shown.length - keptShown.length;
  const came = current.length - keptCurrent.length;
  const moved = keptShown.length - longestRunInOrder(keptShown, keptCurrent);
  return { keys: shown, changes: left + came + moved };
}

/** Returns the number of rows that need not move: the longest increasing subsequence. */
function longestRunInOrder(shown: readonly string[], current: readonly string[]): number {
  const places = new Map(current.map((key, place) => [key, place]));
  const tails: number[] = [];
  for (const key of shown) {
    const place = places.get(key) ?? 0;
    let low = 0;
    let high = tails.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((tails[middle] ?? 0) < place) low = middle + 1;
      else high = middle;
    }
    tails[low] = place;
  }
  return tails.length;
}
