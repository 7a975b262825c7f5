/** The folders of the page depend on each other in one direction. */

import { readFileSync, readdirSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

import { expect, test } from "vitest";

const SOURCE = fileURLToPath(new URL("../src", import.meta.url));

/** Returns the folders that each folder imports from. */
function readImports(): ReadonlyMap<string, ReadonlySet<string>> {
  const imports = new Map<string, Set<string>>();
  for (const entry of readdirSync(SOURCE, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !/\.tsx?$/.test(entry.name)) continue;
    const text = readFileSync(join(entry.parentPath, entry.name), "utf8");
    const own = relative(SOURCE, entry.parentPath);
    const known = imports.get(own) ?? new Set();
    imports.set(own, known);
    for (const [, path = ""] of text.matchAll(/(?:from |import\()"(\.[^"]+)"/g)) {
      const folder = relative(SOURCE, dirname(join(entry.parentPath, path)));
      if (folder !== own) known.add(folder);
    }
  }
  return imports;
}

/** Returns the folders that lead back to the folder, in the order of their imports. */
function findCycle(imports: ReadonlyMap<string, ReadonlySet<string>>, start: string): readonly string[] | undefined {
  const seen = new Set<string>();
  const visit = (folder: string, path: readonly string[]): readonly string[] | undefined => {
    for (const next of imports.get(folder) ?? []) {
      if (next === start) return [...path, next];
      if (seen.has(next)) continue;
      seen.add(next);
      const cycle = visit(next, [...path, next]);
      if (cycle) return cycle;
    }
    return undefined;
  };
  return visit(start, [start]);
}

test("no folder imports in a cycle with another", () => {
  const imports = readImports();
  expect(imports.size).toBeGreaterThan(20);
  const cycles = [...imports.keys()].flatMap((folder) => findCycle(imports, folder)?.join(" > ") ?? []);
  expect(cycles).toEqual([]);
});
