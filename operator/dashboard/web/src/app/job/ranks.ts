/** The ranks of a job, computed from its spec as `operator/cli/src/pods/ranks.rs` does. Pure. */

import type { TaskGroup, TrainingJobSpec } from "../../wire/job";

/** Task groups of one stage with their first rank. */
export interface RankedGroup {
  readonly group: TaskGroup;
  readonly first: number;
  readonly pods: number;
}

/** Returns the groups of a stage in the order of their ranks. Stages count from 1. */
export function rankGroups(spec: TrainingJobSpec, stage: number): RankedGroup[] {
  const stages = groupStages(spec.taskGroups);
  const last = Math.max(1, ...stages);
  const wanted = Math.min(Math.max(stage, 1), last);
  const own = spec.taskGroups.filter((_, place) => stages[place] === wanted);
  own.sort((a, b) => roleOrder(a) - roleOrder(b));
  let next = 0;
  return own.map((group) => {
    const pods = group.replicas ?? 1;
    const ranked = { group, first: next, pods };
    next += pods;
    return ranked;
  });
}

function groupStages(groups: readonly TaskGroup[]): number[] {
  const known = new Map<string, number>();
  return groups.map((group) => {
    const after = (group.dependsOn ?? []).map((dependency) => {
      const stage = known.get(dependency.group);
      if (stage === undefined) return 1;
      return dependency.status === "Complete" ? stage + 1 : stage;
    });
    const stage = Math.max(1, ...after);
    known.set(group.name, stage);
    return stage;
  });
}

function roleOrder(group: TaskGroup): number {
  if (group.membership !== undefined && group.membership !== "Gang") return 4;
  switch (group.role) {
    case "Coordinator":
    case "Launcher":
      return 0;
    case "Server":
      return 2;
    case "Evaluator":
      return 3;
    default:
      return 1;
  }
}

/** Reads ranges such as `0-3,7`. A gang has at most 4096 pods a group; more is no range of ranks. */
export function parseRanges(text: string): number[] {
  const found: number[] = [];
  for (const part of text.split(",")) {
    const match = /^(\d+)(?:-(\d+))?$/.exec(part.trim());
    if (!match) continue;
    const first = Number(match[1]);
    const last = Math.min(Number(match[2] ?? match[1]), first + 65_535);
    for (let rank = first; rank <= last; rank += 1) found.push(rank);
  }
  return found;
}
