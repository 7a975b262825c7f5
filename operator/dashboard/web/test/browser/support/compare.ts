/** Compares answers of the server with those of the command line. */

/** Fields that change from one read to the next, though nothing has happened. */
const VOLATILE = new Set([
  "time",
  "version",
  "share",
  "queueShare",
  "decayedUsage",
  "decayedTime",
  "expectedStart",
  "expectedEnd",
]);

const TIMES = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;

/** Returns an answer without fields that change by themselves, and with lists of objects sorted by name. */
export function stable(value: unknown): unknown {
  if (typeof value === "string") return value.replace(TIMES, "TIME");
  if (Array.isArray(value)) return sortByName(value).map(stable);
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).filter(([name]) => !VOLATILE.has(name));
  return Object.fromEntries(fields.map(([name, field]) => [name, stable(field)]));
}

function sortByName(rows: readonly unknown[]): readonly unknown[] {
  return rows.every((row) => nameOf(row) !== undefined)
    ? [...rows].sort((a, b) => ((nameOf(a) ?? "") < (nameOf(b) ?? "") ? -1 : 1))
    : rows;
}

function nameOf(row: unknown): string | undefined {
  const { metadata } = (row ?? {}) as { readonly metadata?: { readonly namespace?: string; readonly name?: string } };
  return metadata?.name === undefined ? undefined : `${metadata.namespace ?? ""}/${metadata.name}`;
}

/** Returns an object without some of its fields. */
export function without(object: Readonly<Record<string, unknown>>, ...names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
}
