/** The fit lens: which nodes could be part of a gang, and what keeps the others off. Pure. */

import { countOf, formatUntil } from "../../app/text/format";
import type { JobState, NodeState } from "../../wire/cluster";
import { gangKey, gangTitle } from "../base/gang";
import { devicesOfHold } from "./cells";
import { devicesOf, type DeviceCounts, sumDevices } from "./devices";

/** A gang of equal pods. */
export interface FitQuery {
  /** Number of pods. */
  readonly pods: number;
  /** Devices of each pod. */
  readonly devices: number;
  /** Kubernetes name of the device. Absent: the most frequent one. */
  readonly device: string | undefined;
}

/** Kind of an answer: could the node be part of the gang? */
export type FitKind =
  /** The node has room for at least one pod. */
  | "fits"
  /** It has room, but other jobs have reserved it: only a job that ends before they start may use it. */
  | "short"
  /** It has no room, or takes no pods. */
  | "off";

/** The answer for one node. */
export interface NodeFit {
  readonly kind: FitKind;
  /** Number of pods that the node has room for now, reserved devices included. */
  readonly pods: number;
  /** Why the node has no room, or under which condition it has. Empty without either. */
  readonly why: string;
  /** The same in few words, for a tile. */
  readonly brief: string;
}

/** The answer for all nodes. */
export interface FitSummary {
  readonly device: string;
  /** Pods that fit on nodes without reservation. */
  readonly pods: number;
  /** Further pods that fit where others have reserved devices. */
  readonly shortPods: number;
  /** Nodes by answer. */
  readonly nodes: Readonly<Record<FitKind, number>>;
}

const LARGEST = 100_000;

/** Reads `8x8`, `8x8:nvidia.com/gpu`, or `8`, which is one pod. Returns undefined for any other text. */
export function readFit(text: string | undefined): FitQuery | undefined {
  const match = /^\s*(?:(\d{1,6})\s*[x×*]\s*)?(\d{1,6})\s*(?::\s*(\S+))?\s*$/i.exec(text ?? "");
  if (match === null) return undefined;
  const [, podsText = "1", devicesText = "", device] = match;
  const [pods, devices] = [Number(podsText), Number(devicesText)];
  return pods < 1 || devices < 1 || pods > LARGEST || devices > LARGEST ? undefined : { pods, devices, device };
}

/** Writes a query as {@link readFit} reads it. */
export function writeFit(query: FitQuery): string {
  return `${query.pods}x${query.devices}${query.device === undefined ? "" : `:${query.device}`}`;
}

/** Returns the device that a query means: the named one, or the one with the most devices. */
export function deviceOf(query: FitQuery | undefined, nodes: Iterable<NodeState>): string {
  if (query?.device !== undefined) return query.device;
  const sums = sumDevices(nodes);
  return sums.reduce((most, sum) => (most === undefined || sum.total > most.total ? sum : most), sums[0])?.device ?? "";
}

/** Gang, jobs and time on which the answers depend. */
export interface FitContext {
  readonly query: FitQuery;
  /** Kubernetes name of the device, from {@link deviceOf}. */
  readonly device: string;
  readonly jobs: ReadonlyMap<string, JobState>;
  readonly now: Date;
}

/** Returns whether a node could be part of the gang, and the first thing that keeps it off. */
export function fitNode(node: NodeState, context: FitContext): NodeFit {
  const need = context.query.devices;
  if (!node.schedulable) {
    const reason = node.reasons?.[0];
    return off(reason === undefined ? "takes no pods" : `${reason.reason}: ${reason.message}`, reason?.reason ?? "takes no pods");
  }
  const counts = devicesOf(node).find((entry) => entry.device === context.device);
  if (counts === undefined || counts.total === 0) return off(`has no ${context.device}`, "no such device");
  if (counts.total < need) return off(`has ${counts.total} devices; a pod needs ${need}`, `has ${counts.total}`);
  if (counts.free < need) return off(tooFewFree(node, counts, context), `${counts.free}/${counts.total} free`);
  return fitReserved(node, counts, context);
}

/** Returns {@link fitNode} for one context. It computes the answer for a node once. */
export function rememberFits(context: FitContext): (node: NodeState) => NodeFit {
  const known = new WeakMap<NodeState, NodeFit>();
  return (node) => {
    const fit = known.get(node) ?? fitNode(node, context);
    known.set(node, fit);
    return fit;
  };
}

/** Sums the answers of all nodes. */
export function sumFits(fits: Iterable<NodeFit>, device: string): FitSummary {
  const nodes = { fits: 0, short: 0, off: 0 };
  let [pods, shortPods] = [0, 0];
  for (const fit of fits) {
    nodes[fit.kind] += 1;
    if (fit.kind === "fits") pods += fit.pods;
    if (fit.kind === "short") shortPods += fit.pods;
  }
  return { device, pods, shortPods, nodes };
}

/** Says in one sentence whether the gang would fit now. */
export function fitSentence(query: FitQuery, summary: FitSummary): string {
  const gang = `${countOf(query.pods, "pod")} with ${query.devices} ${summary.device}${query.pods === 1 ? "" : " each"}`;
  if (summary.pods >= query.pods) return `${gang}: fits now; ${countOf(summary.nodes.fits, "node")} with room for ${countOf(summary.pods, "pod")}.`;
  const missing = `${gang}: room for ${summary.pods}, ${query.pods - summary.pods} missing.`;
  if (summary.pods + summary.shortPods < query.pods) return missing;
  return `${missing} On reserved nodes is room for ${summary.shortPods} more, if the job ends before the reservations begin.`;
}

function fitReserved(node: NodeState, counts: DeviceCounts, context: FitContext): NodeFit {
  const need = context.query.devices;
  const pods = Math.floor(counts.free / need);
  const reservations = (node.reservedFor ?? []).filter((hold) => devicesOfHold(hold, counts.device) > 0);
  const reserved = reservations.reduce((sum, hold) => sum + devicesOfHold(hold, counts.device), 0);
  const first = reservations[0];
  if (first !== undefined && counts.free - reserved < need) {
    const start = first.expectedStart === undefined ? "" : ` in ${formatUntil(first.expectedStart, context.now)}`;
    const why = `reserved for ${gangTitle(first)}${start}: only for a job that ends before`;
    return { kind: "short", pods, why, brief: "reserved" };
  }
  const open = first === undefined ? pods : Math.floor((counts.free - reserved) / need);
  const taints = node.taints ?? [];
  const why = taints.length === 0 ? "" : `for pods that tolerate ${taints.join(", ")}`;
  return { kind: "fits", pods: open, why, brief: countOf(open, "pod") };
}

/** Names the holder that gives back enough devices first, or the largest one if no end is known. */
function tooFewFree(node: NodeState, counts: DeviceCounts, context: FitContext): string {
  const head = `${counts.free} of ${counts.total} free`;
  const missing = context.query.devices - counts.free;
  const holds = (node.jobs ?? [])
    .map((hold) => ({ hold, devices: devicesOfHold(hold, counts.device), end: endOf(context, gangKey(hold)) }))
    .filter((entry) => entry.devices > 0);
  const enough = holds.filter((entry) => entry.devices >= missing);
  const next = (enough.length > 0 ? enough : holds).sort((a, b) => a.end - b.end || b.devices - a.devices)[0];
  if (next !== undefined) {
    const end = Number.isFinite(next.end) ? `, which ends in ${formatUntil(new Date(next.end), context.now)}` : "";
    return `${head}: ${gangTitle(next.hold)} holds ${next.devices}${end}`;
  }
  if (counts.others > 0) return `${head}: pods of no job hold ${counts.others}`;
  return counts.kept > 0 ? `${head}: ${counts.kept} kept for a job that restarts` : head;
}

function endOf(context: FitContext, gang: string): number {
  const end = Date.parse(context.jobs.get(gang)?.expectedEnd ?? "");
  return Number.isNaN(end) ? Number.POSITIVE_INFINITY : end;
}

function off(why: string, brief: string): NodeFit {
  return { kind: "off", pods: 0, why, brief };
}
