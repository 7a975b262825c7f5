/** Groups sorted nodes by their topology domains. Pure. */

import type { NodeState } from "../../wire/cluster";
import { nodeName } from "./order";

/** A domain that contains nodes, directly or in domains below it. */
export interface DomainGroup {
  /** Domain names from the outermost, joined. It is unique. */
  readonly key: string;
  /** Name of the domain. */
  readonly label: string;
  /** Name of the level, such as `rack`. */
  readonly level: string;
  /** Number of domains around this one. */
  readonly depth: number;
  /** Position of the first node in the order, from 0. */
  readonly first: number;
  /** Number of nodes, with those of the domains below. */
  readonly count: number;
  /** Number of leading nodes that stand in no domain below. */
  readonly direct: number;
  readonly children: readonly DomainGroup[];
}

/** Joins the domains of a key. No label value contains it. */
const SEPARATOR = "/";

/** Label of the box of nodes without domains, beside nodes that have some. */
export const NO_DOMAIN = "no domain";

/**
 * Returns the outermost domains of nodes that are sorted as `trellis nodes` sorts. Nodes without
 * domains are in one group of level "".
 */
export function groupByDomain(nodes: readonly NodeState[]): readonly DomainGroup[] {
  const paths = nodes.map(domainsOf);
  const bare = paths.findIndex((path) => path.length > 0);
  const without = bare < 0 ? nodes.length : bare;
  const groups: DomainGroup[] = [];
  if (without > 0) {
    const label = without === nodes.length ? "" : NO_DOMAIN;
    groups.push({ key: "", label, level: "", depth: 0, first: 0, count: without, direct: without, children: [] });
  }
  groups.push(...groupLevel(paths, without, nodes.length, 0));
  return groups;
}

/**
 * Returns the domains of a node from the outermost. A level whose domain is the node itself, such as
 * `kubernetes.io/hostname`, is left out: each node is a box already.
 */
export function domainsOf(node: NodeState): readonly { readonly level: string; readonly domain: string }[] {
  const name = nodeName(node);
  return (node.domains ?? []).filter((entry) => entry.domain !== name);
}

/** Returns the domains of a node as text, from the outermost: `z1/r2`. */
export function domainText(node: NodeState): string {
  return (node.domains ?? []).map((entry) => entry.domain).join("/");
}

type Path = readonly { readonly level: string; readonly domain: string }[];

function groupLevel(paths: readonly Path[], from: number, to: number, depth: number): readonly DomainGroup[] {
  const groups: DomainGroup[] = [];
  let first = from;
  while (first < to) {
    const entry = paths[first]?.[depth];
    let end = first + 1;
    while (end < to && paths[end]?.[depth]?.domain === entry?.domain) end += 1;
    if (entry !== undefined) groups.push(buildGroup(paths, first, end, depth));
    first = end;
  }
  return groups;
}

function buildGroup(paths: readonly Path[], first: number, end: number, depth: number): DomainGroup {
  const path = paths[first] ?? [];
  let direct = 0;
  while (first + direct < end && (paths[first + direct]?.length ?? 0) <= depth + 1) direct += 1;
  return {
    key: path.slice(0, depth + 1).map((entry) => entry.domain).join(SEPARATOR),
    label: path[depth]?.domain ?? "",
    level: path[depth]?.level ?? "",
    depth,
    first,
    count: end - first,
    direct,
    children: groupLevel(paths, first + direct, end, depth + 1),
  };
}
