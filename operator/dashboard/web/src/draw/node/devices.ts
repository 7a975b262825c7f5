/** Counts the devices of nodes with the rules of `trellis nodes` (`operator/cli/src/nodes/device_counts.rs`). */

import type { NodeResource, NodeState } from "../../wire/cluster";
import { wholeUnits } from "./quantity";

/** Resources that are not devices. */
const NO_DEVICES: ReadonlySet<string> = new Set(["cpu", "memory", "ephemeral-storage"]);

/** Usual sizes of pods, in devices. */
export const POD_SIZES: readonly number[] = [1, 2, 4, 8];

/** Counts of one kind of device, in devices. */
export interface DeviceCounts {
  /** Kubernetes name of the device. */
  readonly device: string;
  /** Devices that pods may use. */
  readonly total: number;
  /** Devices that jobs hold. */
  readonly jobs: number;
  /** Devices that pods of no job hold. */
  readonly others: number;
  /** Devices that are kept for jobs that restart. */
  readonly kept: number;
  /** Devices that are free, also on a node that takes no pods. */
  readonly free: number;
}

/** Sums of one kind of device over several nodes, in devices. */
export interface DeviceSums extends DeviceCounts {
  /** Free devices on nodes that take pods. */
  readonly usable: number;
  /** Pods that could start now, each within one node, for each of {@link POD_SIZES}. */
  readonly pods: readonly number[];
}

const countsByNode = new WeakMap<NodeState, readonly DeviceCounts[]>();

/** Returns the counts of each kind of device of a node, in the order of the node's resources. */
export function devicesOf(node: NodeState): readonly DeviceCounts[] {
  const known = countsByNode.get(node);
  if (known !== undefined) return known;
  const devices = (node.resources ?? []).filter((entry) => isDevice(entry.resource));
  const counts = devices.map(countsOf);
  countsByNode.set(node, counts);
  return counts;
}

/** Returns true for a resource that the map draws as cells. */
export function isDevice(resource: string): boolean {
  return !NO_DEVICES.has(resource);
}

function countsOf(entry: NodeResource): DeviceCounts {
  return {
    device: entry.resource,
    total: wholeUnits(entry.allocatable),
    jobs: wholeUnits(entry.jobs),
    others: wholeUnits(entry.others),
    kept: wholeUnits(entry.kept),
    free: wholeUnits(entry.free),
  };
}

/** Returns true for a node that takes pods and has free devices. */
export function isFree(node: NodeState): boolean {
  return node.schedulable && devicesOf(node).some((counts) => counts.free > 0);
}

/** Returns true for a node that takes pods and has some of its devices free, but not all. */
export function isPartlyFree(node: NodeState): boolean {
  return node.schedulable && devicesOf(node).some((counts) => counts.free > 0 && counts.free < counts.total);
}

/** Returns the state of a node as `trellis nodes` prints it: Idle, Mixed, Full, or its reasons. */
export function stateWord(node: NodeState): string {
  if (!node.schedulable) return (node.reasons ?? []).map((reason) => reason.reason).join(",");
  const devices = devicesOf(node);
  const total = devices.reduce((sum, counts) => sum + counts.total, 0);
  const free = devices.reduce((sum, counts) => sum + counts.free, 0);
  if (total === 0) return (node.jobs ?? []).length === 0 ? "Idle" : "Mixed";
  if (free === 0) return "Full";
  return free >= total ? "Idle" : "Mixed";
}

/** Returns the sums of each kind of device, sorted by name. */
export function sumDevices(nodes: Iterable<NodeState>): readonly DeviceSums[] {
  const sums = new Map<string, DeviceSums>();
  for (const node of nodes) {
    for (const counts of devicesOf(node)) {
      const before = sums.get(counts.device) ?? emptySums(counts.device);
      sums.set(counts.device, addCounts(before, counts, node.schedulable ? counts.free : 0));
    }
  }
  return [...sums.values()].sort((a, b) => (a.device < b.device ? -1 : 1));
}

function emptySums(device: string): DeviceSums {
  return { device, total: 0, jobs: 0, others: 0, kept: 0, free: 0, usable: 0, pods: POD_SIZES.map(() => 0) };
}

function addCounts(sums: DeviceSums, counts: DeviceCounts, usable: number): DeviceSums {
  return {
    device: sums.device,
    total: sums.total + counts.total,
    jobs: sums.jobs + counts.jobs,
    others: sums.others + counts.others,
    kept: sums.kept + counts.kept,
    free: sums.free + counts.free,
    usable: sums.usable + usable,
    pods: POD_SIZES.map((size, index) => (sums.pods[index] ?? 0) + Math.trunc(usable / size)),
  };
}
