/** Sorts nodes as `trellis nodes` does: by domains, then by name with numbers in numeric order. */

import type { NodeState } from "../../wire/cluster";

interface SortKey {
  readonly domains: readonly string[];
  readonly name: readonly NamePart[];
}

interface NamePart {
  readonly word: string;
  readonly number: number;
}

const keys = new WeakMap<NodeState, SortKey>();

/** Returns the name of a node. */
export function nodeName(node: NodeState): string {
  return node.metadata.name;
}

/** Returns the nodes in the order of `trellis nodes`. */
export function sortNodes(nodes: Iterable<NodeState>): NodeState[] {
  return [...nodes].sort(compareNodes);
}

/** Compares two nodes: negative if `a` stands before `b`. */
export function compareNodes(a: NodeState, b: NodeState): number {
  const [left, right] = [keyOf(a), keyOf(b)];
  return compareLists(left.domains, right.domains, compareText) || compareLists(left.name, right.name, comparePart);
}

/** Splits a name into words and the numbers behind them, so that `node-10` stands after `node-9`. */
export function splitName(name: string): readonly NamePart[] {
  const parts: NamePart[] = [];
  for (const match of name.matchAll(/(\D*)(\d*)/g)) {
    const [all, word = "", digits = ""] = match;
    if (all !== "") parts.push({ word, number: numberOf(digits) });
  }
  return parts;
}

/** Numbers that the command line cannot count, beyond 64 bits, are 0 there. */
function numberOf(digits: string): number {
  const number = Number(digits);
  return number < 2 ** 64 ? number : 0;
}

function keyOf(node: NodeState): SortKey {
  const known = keys.get(node);
  if (known !== undefined) return known;
  const key = { domains: (node.domains ?? []).map((entry) => entry.domain), name: splitName(nodeName(node)) };
  keys.set(node, key);
  return key;
}

function compareText(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

function comparePart(a: NamePart, b: NamePart): number {
  return compareText(a.word, b.word) || a.number - b.number;
}

/** Compares lists as Rust does: by the first difference, and a prefix stands before the longer list. */
function compareLists<T>(a: readonly T[], b: readonly T[], compare: (a: T, b: T) => number): number {
  const shared = Math.min(a.length, b.length);
  for (let index = 0; index < shared; index += 1) {
    const order = compare(a[index] as T, b[index] as T);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}
