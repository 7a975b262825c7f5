/** Applies the rows that changed to a list. Pure. */

/** Changed and removed rows of one list. */
export interface Delta<Row> {
  readonly changed?: readonly Row[] | undefined;
  readonly gone?: readonly string[] | undefined;
}

/**
 * Returns the list after all deltas, in order.
 *
 * A delta removes its gone rows before it adds its changed rows. The old list stays as it is; without
 * a change, the function returns the old list itself.
 */
export function applyDeltas<Row>(
  old: ReadonlyMap<string, Row>,
  deltas: readonly Delta<Row>[],
  keyOf: (row: Row) => string,
): ReadonlyMap<string, Row> {
  const touches = deltas.some((delta) => delta.changed?.length || delta.gone?.length);
  if (!touches) return old;
  const rows = new Map(old);
  for (const delta of deltas) {
    for (const key of delta.gone ?? []) rows.delete(key);
    for (const row of delta.changed ?? []) rows.set(keyOf(row), row);
  }
  return rows;
}

/** Returns a list from all of its rows. */
export function indexRows<Row>(
  rows: readonly Row[],
  keyOf: (row: Row) => string,
): ReadonlyMap<string, Row> {
  return new Map(rows.map((row) => [keyOf(row), row]));
}
