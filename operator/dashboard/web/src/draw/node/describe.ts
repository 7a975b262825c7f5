/** Says in words what the map draws, for tooltips and screen readers. Pure. */

import { formatUntil } from "../../app/text/format";
import type { NodeHold, NodeState } from "../../wire/cluster";
import { gangTitle } from "../base/gang";
import type { CellState } from "./cells";
import { devicesOf, stateWord } from "./devices";
import { domainText } from "./domains";
import { nodeName } from "./order";

/** Greatest number of jobs in a description. */
const MAX_JOBS = 4;

/** Words for the states of cells, as in the legend. */
export const STATE_WORDS: Readonly<Record<CellState, string>> = {
  running: "held by a running job",
  starting: "held by a starting job",
  stopping: "held by a stopping job",
  other: "held by pods of no job",
  kept: "kept for a job that restarts",
  free: "free",
  blocked: "free, but the node takes no pods",
};

/** Describes a node in one text: state, free devices, domains, holders. */
export function describeNode(node: NodeState, now: Date): string {
  const place = domainText(node);
  const parts = [
    `${nodeName(node)}: ${stateWord(node)}`,
    ...devicesOf(node).map((counts) => `${counts.free} of ${counts.total} ${counts.device} free`),
    ...(place === "" ? [] : [`in ${place}`]),
    ...holders(node, now),
  ];
  return `${parts.join(", ").replace(/\.$/, "")}.`;
}

/** Lists who holds, has reserved or avoids a node, with the words of `trellis nodes`. */
export function holders(node: NodeState, now: Date): readonly string[] {
  const jobs = node.jobs ?? [];
  const more = jobs.length - MAX_JOBS;
  const avoided = (node.excludedBy ?? []).slice(0, MAX_JOBS).map(gangTitle);
  return [
    ...(node.schedulable ? [] : (node.reasons ?? []).map((reason) => reason.message)),
    ...jobs.slice(0, MAX_JOBS).map((hold) => `${holdText(hold)}${stateSuffix(hold)}`),
    ...(more > 0 ? [more === 1 ? "1 more job" : `${more} more jobs`] : []),
    ...(node.otherPods > 0 ? [node.otherPods === 1 ? "1 other pod" : `${node.otherPods} other pods`] : []),
    ...(node.reservedFor ?? []).map((hold) => `reserved for ${holdText(hold)}${startText(hold, now)}`),
    ...(node.keptFor ?? []).map((hold) => `kept for ${holdText(hold)}${untilText(hold, now)}`),
    ...(avoided.length > 0 ? [`avoided by ${avoided.join(" ")}`] : []),
  ];
}

/** Returns when reserved devices will be used: ` in 63m`, ` from now`, or nothing. */
export function startText(hold: NodeHold, now: Date): string {
  if (hold.expectedStart === undefined) return "";
  const span = formatUntil(hold.expectedStart, now);
  return span === "now" ? " from now" : ` in ${span}`;
}

function untilText(hold: NodeHold, now: Date): string {
  return hold.until === undefined ? "" : ` for ${formatUntil(hold.until, now)}`;
}

function stateSuffix(hold: NodeHold): string {
  return hold.state === undefined || hold.state === "Running" ? "" : ` (${hold.state})`;
}

function holdText(hold: NodeHold): string {
  const devices = (hold.devices ?? []).map((entry) => entry.amount);
  if (devices.length > 0) return `${gangTitle(hold)}:${devices.join("+")}`;
  return hold.pods === 1 ? gangTitle(hold) : `${gangTitle(hold)} (${hold.pods} pods)`;
}
