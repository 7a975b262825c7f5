/** The gang of a job: one cell for each rank. Pure. */

import type { MissingPods, PodLine, StatusReport } from "../../wire/job";
import { parseRanges, rankGroups } from "./ranks";

/** State of a rank. Each has its own colour and pattern. */
export type RankState =
  | "ready"
  | "running"
  | "starting"
  | "stopping"
  | "done"
  | "failed"
  | "missing"
  | "waiting";

/** One rank of the current stage and attempt. */
export interface RankCell {
  readonly rank: number;
  readonly group: string;
  readonly index: number;
  readonly state: RankState;
  readonly pod?: PodLine;
  readonly missing?: MissingPods;
}

/** Neighbours in rank order that are on one node, in one task group. */
export interface RankRun {
  readonly group: string;
  /** Undefined: the pods are on no node. */
  readonly node: string | undefined;
  readonly cells: readonly RankCell[];
}

/** A job has at most this many pods. A larger spec is not valid, and would freeze the page. */
const MAX_RANKS = 16_384;

/** Returns the ranks of the current stage, in order. */
export function buildGang(report: StatusReport): RankCell[] {
  const { spec, status } = report.job;
  const attempt = status?.attempt ?? 1;
  const pods = new Map<string, PodLine>();
  for (const pod of report.pods) {
    if (pod.attempt !== attempt) continue;
    const key = `${pod.group}/${pod.index}`;
    const other = pods.get(key);
    // A replaced pod may exist until its successor runs.
    if (!other || (pod.round ?? 0) >= (other.round ?? 0)) pods.set(key, pod);
  }
  const missing = indexMissing(report.missing);
  const cells: RankCell[] = [];
  for (const { group, first, pods: count } of rankGroups(spec, status?.stage?.number ?? 1)) {
    for (let index = 0; index < count && cells.length < MAX_RANKS; index += 1) {
      const key = `${group.name}/${index}`;
      const pod = pods.get(key);
      const own = pod ? undefined : missing.get(key);
      const place = { rank: first + index, group: group.name, index };
      const state = pod ? podState(pod) : missingState(own, status?.phase);
      cells.push({ ...place, state, ...(pod && { pod }), ...(own && { missing: own }) });
    }
  }
  return cells;
}

function indexMissing(missing: readonly MissingPods[]): Map<string, MissingPods> {
  const found = new Map<string, MissingPods>();
  for (const own of missing) for (const index of parseRanges(own.indexes)) found.set(`${own.group}/${index}`, own);
  return found;
}

const STARTING = new Set(["Pending", "ContainerCreating", "PodInitializing"]);

/** As `PodState::tone` of the command line. */
export function podState(pod: Pick<PodLine, "state" | "ready" | "containers">): RankState {
  const { state } = pod;
  if (state === "Running") return pod.ready === pod.containers ? "ready" : "running";
  if (state === "Completed" || state === "Succeeded") return "done";
  if (STARTING.has(state) || /^Init:\d+\/\d+$/.test(state)) return "starting";
  return state === "Terminating" ? "stopping" : "failed";
}

function missingState(missing: MissingPods | undefined, phase: string | undefined): RankState {
  if (missing) return missing.done ? "done" : "missing";
  if (phase === "Complete") return "done";
  return phase === "Starting" || phase === "Running" ? "missing" : "waiting";
}

/** Splits the ranks into runs on one node. */
export function splitByNode(cells: readonly RankCell[]): RankRun[] {
  const runs: { group: string; node: string | undefined; cells: RankCell[] }[] = [];
  for (const cell of cells) {
    const node = cell.pod?.node;
    const last = runs.at(-1);
    if (last && last.group === cell.group && last.node === node) last.cells.push(cell);
    else runs.push({ group: cell.group, node, cells: [cell] });
  }
  return runs;
}

/** Counts the ranks by state, in the order of the legend. */
export function countStates(cells: readonly RankCell[]): Map<RankState, number> {
  const counts = new Map<RankState, number>();
  for (const { state } of cells) counts.set(state, (counts.get(state) ?? 0) + 1);
  return counts;
}

/** The meaning of each state, in the order of the legend. */
export const RANK_STATES: Readonly<Record<RankState, string>> = {
  ready: "ready",
  running: "runs, not ready",
  starting: "starting",
  stopping: "stopping",
  done: "completed",
  failed: "failed or stuck",
  missing: "missing",
  waiting: "not placed",
};
