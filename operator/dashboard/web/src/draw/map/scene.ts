/** Everything the map shows beside the view: nodes in their places, their look, and the answers of the lens. */

import type { NodeState } from "../../wire/cluster";
import type { MapLayout } from "../layout/layout";
import { columnsFor } from "../layout/tile";
import { cellRows } from "../node/cells";
import type { NodeFit } from "../node/fit";
import { nodeName } from "../node/order";
import { fillKey, type LookContext } from "./look";

/** A scene of the map. */
export interface MapScene {
  readonly layout: MapLayout;
  /** Nodes by position. */
  readonly nodes: readonly NodeState[];
  /** Cells that the widest row has room for. */
  readonly columns: number;
  readonly look: LookContext;
  readonly now: Date;
  /** Answers of the fit lens by position. Absent: the lens is off. */
  readonly fits: readonly NodeFit[] | undefined;
}

/** Sources of a scene. */
export interface SceneParts {
  readonly layout: MapLayout;
  readonly nodes: ReadonlyMap<string, NodeState>;
  readonly look: LookContext;
  readonly now: Date;
  /** Answer of the fit lens for a node. Absent: the lens is off. */
  readonly fitOf: ((node: NodeState) => NodeFit) | undefined;
}

/** Builds a scene. Nodes that the layout does not have are left out. */
export function buildScene(parts: SceneParts): MapScene {
  const { layout, look, now, fitOf } = parts;
  const nodes = layout.names.map((name) => parts.nodes.get(name)).filter((node) => node !== undefined);
  return {
    layout,
    nodes,
    columns: columnsFor(nodes.reduce((most, node) => Math.max(most, ...cellRows(node).map((row) => row.cells)), 1)),
    look,
    now,
    fits: fitOf === undefined ? undefined : nodes.map(fitOf),
  };
}

/** Returns true if nothing that all tiles depend on differs between two scenes. */
export function hasSameGround(before: MapScene, after: MapScene): boolean {
  return (
    before.layout === after.layout &&
    before.columns === after.columns &&
    before.look.by === after.look.by &&
    (before.fits === undefined) === (after.fits === undefined)
  );
}

/** Returns the positions of tiles that look different in two scenes with the same ground. */
export function changedTiles(before: MapScene, after: MapScene): readonly number[] {
  const changed: number[] = [];
  after.nodes.forEach((node, position) => {
    const old = before.nodes[position];
    if (old === node ? looksDifferent(node, position, before, after) : true) changed.push(position);
  });
  return changed;
}

function looksDifferent(node: NodeState, position: number, before: MapScene, after: MapScene): boolean {
  const [old, fit] = [before.fits?.[position], after.fits?.[position]];
  if (old?.kind !== fit?.kind || old?.brief !== fit?.brief || old?.why !== fit?.why) return true;
  if (after.look.by === "gang" || after.look.by === "state") return false;
  const runs = cellRows(node).flatMap((row) => row.runs);
  return runs.some((run) => fillKey(run, before.look) !== fillKey(run, after.look));
}

/** Returns the positions of the nodes of each gang: those that it holds, keeps, or has reserved. */
export function nodesByGang(nodes: readonly NodeState[]): ReadonlyMap<string, readonly number[]> {
  const positions = new Map<string, number[]>();
  nodes.forEach((node, position) => {
    const gangs = new Set<string>();
    for (const row of cellRows(node)) {
      for (const run of row.runs) if (run.gang !== undefined) gangs.add(run.gang);
      for (const bracket of row.brackets) gangs.add(bracket.gang);
    }
    for (const gang of gangs) {
      const known = positions.get(gang);
      if (known === undefined) positions.set(gang, [position]);
      else known.push(position);
    }
  });
  return positions;
}

/** Returns the position of a node by name. */
export function positionOf(scene: MapScene, name: string | undefined): number | undefined {
  const position = name === undefined ? undefined : scene.layout.positions.get(name);
  return position !== undefined && scene.nodes[position] !== undefined && nodeName(scene.nodes[position]) === name ? position : undefined;
}
