/**
 * Turns a node into rows of cells: one row for each kind of device, one cell for each device. A cell
 * is a count, not a physical device: the scheduler knows how many devices a job holds, not which.
 */

import type { NodeHold, NodeState } from "../../wire/cluster";
import { gangKey } from "../base/gang";
import { devicesOf, type DeviceCounts } from "./devices";
import { wholeUnits } from "./quantity";
import { apportion, shareCells } from "./share";

/**
 * State of a cell. Each state has a fill or a pattern of its own, so that no meaning depends on
 * colour.
 *
 * - `running`, `starting`, `stopping`: a job holds the device, and its pods exist, are being
 *   created, or leave.
 * - `other`: pods of no job hold the device.
 * - `kept`: the device is kept for a job that restarts.
 * - `free`: the device is free.
 * - `blocked`: the device is free, but the node takes no pods.
 */
export type CellState = "running" | "starting" | "stopping" | "other" | "kept" | "free" | "blocked";

/** All states, in the order of the legend. */
export const CELL_STATES: readonly CellState[] = ["running", "starting", "stopping", "other", "kept", "free", "blocked"];

/** Neighbouring cells with the same state and gang. */
export interface CellRun {
  readonly state: CellState;
  /** Key of the gang that holds the devices, or for which they are kept. Absent: unknown or none. */
  readonly gang: string | undefined;
  /** Position of the first cell in the row, from 0. */
  readonly first: number;
  /** Number of cells. */
  readonly cells: number;
  /** Number of devices that the cells stand for. */
  readonly devices: number;
}

/** A reservation of devices of one row. */
export interface Bracket {
  /** Key of the gang for which the devices are reserved. */
  readonly gang: string;
  /** Position of the first cell, from 0. */
  readonly first: number;
  /** Number of cells, at least 1. */
  readonly cells: number;
  /** Number of reserved devices. */
  readonly devices: number;
  /** Expected start of the gang, in RFC 3339. Absent: unknown. */
  readonly expectedStart: string | undefined;
}

/** The cells of one kind of device of a node. */
export interface CellRow {
  readonly counts: DeviceCounts;
  /** Number of cells, at most {@link MAX_CELLS}. */
  readonly cells: number;
  readonly runs: readonly CellRun[];
  readonly brackets: readonly Bracket[];
}

const rowsByNode = new WeakMap<NodeState, readonly CellRow[]>();

/** Returns the rows of a node. They are computed once for each version of a node. */
export function cellRows(node: NodeState): readonly CellRow[] {
  const known = rowsByNode.get(node);
  if (known !== undefined) return known;
  const rows = devicesOf(node).map((counts) => buildRow(node, counts));
  rowsByNode.set(node, rows);
  return rows;
}

/** Returns the run of a row that has a cell, by the cell's position from 0. */
export function runAt(row: CellRow, cell: number): CellRun | undefined {
  return row.runs.find((run) => cell >= run.first && cell < run.first + run.cells);
}

interface Part {
  readonly state: CellState;
  readonly gang: string | undefined;
  readonly devices: number;
}

function buildRow(node: NodeState, counts: DeviceCounts): CellRow {
  const free = Math.max(counts.total - counts.jobs - counts.others - counts.kept, 0);
  const groups: readonly (readonly Part[])[] = [
    holdParts(node.jobs ?? [], counts.device, counts.jobs, stateOf),
    [{ state: "other", gang: undefined, devices: counts.others }],
    holdParts(node.keptFor ?? [], counts.device, counts.kept, () => "kept"),
    [{ state: node.schedulable ? "free" : "blocked", gang: undefined, devices: free }],
  ];
  const shares = shareCells([counts.jobs, counts.others, counts.kept, free]);
  const runs: CellRun[] = [];
  let first = 0;
  groups.forEach((parts, index) => {
    const share = shares[index] ?? 0;
    const cells = apportion(parts.map((part) => part.devices), share);
    parts.forEach((part, position) => {
      const count = cells[position] ?? 0;
      if (count > 0) runs.push({ ...part, first, cells: count });
      first += count;
    });
  });
  return { counts, cells: first, runs, brackets: buildBrackets(node, counts, first) };
}

/** Splits the devices of one class among its holders. Devices without a named holder come last. */
function holdParts(
  holds: readonly NodeHold[],
  device: string,
  devices: number,
  state: (hold: NodeHold | undefined) => CellState,
): readonly Part[] {
  const parts: Part[] = [];
  let left = devices;
  for (const hold of holds) {
    const held = Math.min(devicesOfHold(hold, device), left);
    if (held > 0) parts.push({ state: state(hold), gang: gangKey(hold), devices: held });
    left -= Math.max(held, 0);
  }
  if (left > 0) parts.push({ state: state(undefined), gang: undefined, devices: left });
  return parts;
}

/** Returns how many devices of one kind a job holds on a node. */
export function devicesOfHold(hold: NodeHold, device: string): number {
  return wholeUnits(hold.devices?.find((entry) => entry.resource === device)?.amount);
}

/** Returns the state of the cells that a job holds. An unknown word counts as running. */
export function stateOf(hold: NodeHold | undefined): CellState {
  switch (hold?.state) {
    case "Starting":
      return "starting";
    case "Stopping":
      return "stopping";
    default:
      return "running";
  }
}

/**
 * Places the brackets from the right end of the row, where the free cells are. Reservations that
 * need more cells than the row has start again at its right end.
 */
function buildBrackets(node: NodeState, counts: DeviceCounts, cells: number): readonly Bracket[] {
  const brackets: Bracket[] = [];
  const all = Math.max(counts.total, 1);
  let end = cells;
  for (const hold of node.reservedFor ?? []) {
    const devices = devicesOfHold(hold, counts.device);
    if (devices <= 0 || cells === 0) continue;
    const wide = Math.min(Math.max(Math.round((devices * cells) / all), 1), cells);
    if (end - wide < 0) end = cells;
    end -= wide;
    brackets.push({ gang: gangKey(hold), first: end, cells: wide, devices, expectedStart: hold.expectedStart });
  }
  return brackets;
}
