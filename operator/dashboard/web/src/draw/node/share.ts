/** Shares a fixed number of cells among counts. */

/** Greatest number of cells of one kind of device on a node. With more devices, several share one cell. */
export const MAX_CELLS = 16;

/**
 * Scales counts to at most `limit` cells with the largest remainders (Hamilton), as `trellis nodes
 * --map` does. Counts that fit stay as they are. With equal remainders, the earlier count wins.
 */
export function shareCells(counts: readonly number[], limit: number = MAX_CELLS): number[] {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total <= limit) return [...counts];
  return apportion(counts, limit, total);
}

/** Divides exactly `seats` among counts in proportion, also if the counts sum to less. */
export function apportion(
  counts: readonly number[],
  seats: number,
  total: number = counts.reduce((sum, count) => sum + count, 0),
): number[] {
  if (total <= 0) return counts.map(() => 0);
  const shares = counts.map((count) => Math.floor((count * seats) / total));
  let left = seats - shares.reduce((sum, share) => sum + share, 0);
  const byRemainder = counts
    .map((count, index) => ({ index, remainder: (count * seats) % total }))
    .sort((a, b) => b.remainder - a.remainder || a.index - b.index);
  for (const { index } of byRemainder) {
    if (left === 0) break;
    shares[index] = (shares[index] ?? 0) + 1;
    left -= 1;
  }
  return shares;
}
