/** Free devices by node and by domain: where they lie in pieces. Pure. */

import type { NodeState } from "../../wire/cluster";
import { devicesOf } from "./devices";
import { domainsOf } from "./domains";

/** Number of nodes with the same number of free devices. */
export interface Hole {
  /** Free devices of the node, from 1. */
  readonly free: number;
  readonly nodes: number;
  /** True if the nodes are wholly free. */
  readonly whole: boolean;
}

/** The largest gang of equal pods that starts now within one domain. */
export interface LargestGang {
  /** Name of the level, such as `rack`; "" for the whole cluster. */
  readonly level: string;
  /** Name of the domain; "" for the whole cluster. */
  readonly domain: string;
  /** Devices of the gang. */
  readonly devices: number;
}

/** Returns how many nodes that take pods have each number of free devices, from the smallest hole. */
export function holesBySize(nodes: Iterable<NodeState>, device: string): readonly Hole[] {
  const holes = new Map<string, Hole>();
  for (const node of nodes) {
    const counts = devicesOf(node).find((entry) => entry.device === device);
    if (!node.schedulable || counts === undefined || counts.free <= 0) continue;
    const whole = counts.free >= counts.total;
    const key = `${counts.free}/${whole}`;
    holes.set(key, { free: counts.free, whole, nodes: (holes.get(key)?.nodes ?? 0) + 1 });
  }
  return [...holes.values()].sort((a, b) => a.free - b.free || Number(a.whole) - Number(b.whole));
}

/**
 * Returns the largest gang of pods with `devices` devices each that starts now: within one domain of
 * each level, from the innermost, and anywhere. Quota and the wishes of jobs do not count.
 */
export function largestGangs(nodes: Iterable<NodeState>, device: string, devices: number): readonly LargestGang[] {
  const rooms = new Map<string, LargestGang>();
  const levels: string[] = [];
  let anywhere = 0;
  for (const node of nodes) {
    const room = roomOf(node, device, devices);
    anywhere += room;
    let path = "";
    for (const entry of domainsOf(node)) {
      path += `/${entry.domain}`;
      if (!levels.includes(entry.level)) levels.push(entry.level);
      const key = `${entry.level} ${path}`;
      const before = rooms.get(key)?.devices ?? 0;
      rooms.set(key, { level: entry.level, domain: entry.domain, devices: before + room });
    }
  }
  const largest = levels.reverse().map((level) => {
    const ofLevel = [...rooms.values()].filter((entry) => entry.level === level);
    return ofLevel.reduce((most, entry) => (entry.devices > most.devices ? entry : most), ofLevel[0] as LargestGang);
  });
  return [...largest, { level: "", domain: "", devices: anywhere }];
}

function roomOf(node: NodeState, device: string, devices: number): number {
  const free = node.schedulable ? (devicesOf(node).find((entry) => entry.device === device)?.free ?? 0) : 0;
  return Math.floor(Math.max(free, 0) / devices) * devices;
}
