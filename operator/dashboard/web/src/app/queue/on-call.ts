/** What broke: bad nodes, and attempts that have just failed or been preempted. Pure. */

import type { EndedAttempt } from "../../wire/attempt";
import type { NodeState } from "../../wire/cluster";
import { endKind } from "../job/ended-attempts";

/** Reasons that people bring about on purpose. */
const INTENDED = new Set(["SchedulingDisabled", "NoPods"]);

/** True for a node that takes no pods because something is wrong with it. A cordoned node alone is not bad. */
export function isBad(node: NodeState): boolean {
  return !node.schedulable && (node.reasons ?? []).some(({ reason }) => !INTENDED.has(reason));
}

/** Bad nodes in numbers. */
export interface BadNodes {
  readonly count: number;
  /** Reasons with the count of their nodes, the most frequent first. */
  readonly reasons: readonly (readonly [reason: string, nodes: number])[];
  /** Jobs with pods on these nodes. */
  readonly jobs: number;
}

/** Counts the bad nodes, and the jobs on them. */
export function countBadNodes(nodes: Iterable<NodeState>): BadNodes {
  const bad = [...nodes].filter(isBad);
  const reasons = new Map<string, number>();
  for (const node of bad) {
    for (const { reason } of node.reasons ?? []) if (!INTENDED.has(reason)) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  }
  const jobs = new Set(bad.flatMap((node) => (node.jobs ?? []).map(({ namespace, name }) => `${namespace}/${name}`)));
  const byCount = [...reasons].sort(([a, left], [b, right]) => right - left || (a < b ? -1 : 1));
  return { count: bad.length, reasons: byCount, jobs: jobs.size };
}

/** Attempts of some time until now, the newest first. */
export interface RecentEnds {
  readonly failed: readonly EndedAttempt[];
  readonly preempted: readonly EndedAttempt[];
}

/** Returns the attempts that ended since a time, in milliseconds since 1970. The last to end must be the last. */
export function recentEnds(attempts: readonly EndedAttempt[], since: number): RecentEnds {
  const recent: EndedAttempt[] = [];
  for (let index = attempts.length - 1; index >= 0; index -= 1) {
    const ended = attempts[index];
    if (ended === undefined || Date.parse(ended.ended) < since) break;
    recent.push(ended);
  }
  return {
    failed: recent.filter((ended) => endKind(ended) === "failed"),
    preempted: recent.filter((ended) => endKind(ended) === "preempted"),
  };
}

/** Says that all is quiet, as far as nodes and attempts are known. Undefined: neither is known. */
export function quietText(areNodesKnown: boolean, areAttemptsKnown: boolean): string | undefined {
  if (areNodesKnown && areAttemptsKnown) return "No bad node, and no failed attempt in the last hour.";
  if (areNodesKnown) return "No bad node.";
  return areAttemptsKnown ? "No failed attempt in the last hour." : undefined;
}
