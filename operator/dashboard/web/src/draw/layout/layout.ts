/**
 * Places nodes on the map: tiles of equal size, in nested boxes for their topology domains.
 *
 * The layout depends on the names and domains of the nodes alone, never on their usage. With the
 * shape of an earlier layout, a changed domain leaves the rows of all other domains as they are.
 */

import type { NodeState } from "../../wire/cluster";
import type { Rect, Size } from "../base/geometry";
import { groupByDomain, type DomainGroup } from "../node/domains";
import { nodeName } from "../node/order";
import { chooseColumns, chooseWidth, flow, KEEP_FACTOR, shapeCost, type Flow } from "./flow";

/** Size of the tile of a node, in map units. */
export const TILE: Size = { width: 64, height: 32 };

/** Distance between two tiles, in map units. */
export const TILE_GAP = 4;

/** Width by height of boxes that a layout tries: of innermost domains, and of those around them. */
const LEAF_ASPECTS: readonly number[] = [1, 0.5, 2];
const INNER_ASPECTS: readonly number[] = [1.2, 0.7, 2, 3];

/** Tiles in a grid: nodes that stand directly in one domain. */
export interface TileGrid extends Rect {
  /** Position of the first node in the order, from 0. */
  readonly first: number;
  readonly count: number;
  readonly columns: number;
}

/** A box around the nodes of a domain. */
export interface DomainBox extends Rect {
  readonly key: string;
  readonly label: string;
  readonly level: string;
  readonly depth: number;
  /** Position of the first node in the order, and the number of nodes. */
  readonly first: number;
  readonly count: number;
  /** Height of the strip for the label, in map units. */
  readonly header: number;
}

/** Choices that later layouts keep while they are nearly as good. */
export interface LayoutShape {
  /** Width by height of innermost domains, and of those around them. */
  readonly aspects: Aspects;
  /** Columns of grids and lengths of rows, by domain. */
  readonly columns: ReadonlyMap<string, number>;
  readonly widths: ReadonlyMap<string, number>;
}

/** Width by height of boxes. */
export interface Aspects {
  readonly leaf: number;
  readonly inner: number;
}

/** The places of all nodes. */
export interface MapLayout extends Size {
  /** Names of the nodes in order. */
  readonly names: readonly string[];
  /** Position of each node in the order, by name. */
  readonly positions: ReadonlyMap<string, number>;
  /** Boxes, each before those within it. */
  readonly boxes: readonly DomainBox[];
  /** Grids in the order of their nodes. */
  readonly grids: readonly TileGrid[];
  readonly shape: LayoutShape;
}

/** Window, labels and earlier shape on which a layout depends. */
export interface LayoutOptions {
  /** Width by height of the window. */
  readonly aspect: number;
  /** Height of the label of an outermost domain, in map units. */
  readonly header: number;
  /** Shape of the earlier layout. */
  readonly before?: LayoutShape | undefined;
}

/** Returns the height of the labels of outermost domains for a number of nodes, in map units. */
export function headerFor(nodes: number, windowPixels: number): number {
  const scale = Math.sqrt(windowPixels / Math.max(nodes, 1) / (TILE.width * TILE.height * 1.4));
  const step = 2 ** Math.round(Math.log2(20 / Math.max(scale, 0.02)));
  return Math.min(Math.max(step, 8), 128);
}

/** Places nodes, which are sorted as `trellis nodes` sorts. */
export function layOut(nodes: readonly NodeState[], options: LayoutOptions): MapLayout {
  const groups = groupByDomain(nodes);
  const run = chooseRun(groups, options);
  const names = nodes.map(nodeName);
  return {
    width: run.size.width,
    height: run.size.height,
    names,
    positions: new Map(names.map((name, index) => [name, index])),
    boxes: run.boxes,
    grids: run.grids,
    shape: { aspects: run.aspects, columns: run.columns, widths: run.widths },
  };
}

/** Returns the layout that fills the window best, or the one with the aspects of before if it is nearly as good. */
function chooseRun(groups: readonly DomainGroup[], options: LayoutOptions): LayoutRun {
  const before = options.before?.aspects;
  const kept = before === undefined ? undefined : new LayoutRun(groups, options, before);
  const hasBoxes = groups.some((group) => group.label !== "");
  if (kept !== undefined && !hasBoxes) return kept;
  let best: LayoutRun | undefined;
  for (const leaf of LEAF_ASPECTS) {
    for (const inner of INNER_ASPECTS) {
      const run = new LayoutRun(groups, options, { leaf, inner });
      if (best === undefined || run.cost < best.cost - 1e-9) best = run;
    }
  }
  if (kept !== undefined && (best === undefined || kept.cost <= best.cost * KEEP_FACTOR)) return kept;
  return best as LayoutRun;
}

/** Returns the grid that has a node, by the node's position in the order. */
export function gridOf(layout: MapLayout, position: number): TileGrid | undefined {
  let [low, high] = [0, layout.grids.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const grid = layout.grids[middle] as TileGrid;
    if (position < grid.first) high = middle - 1;
    else if (position >= grid.first + grid.count) low = middle + 1;
    else return grid;
  }
  return undefined;
}

/** Returns the tile of a node, by the node's position in the order. */
export function tileOf(layout: MapLayout, position: number): Rect | undefined {
  const grid = gridOf(layout, position);
  return grid === undefined ? undefined : tileIn(grid, position - grid.first);
}

/** Returns a tile of a grid, by its position in the grid. */
export function tileIn(grid: TileGrid, index: number): Rect {
  return {
    x: grid.x + (index % grid.columns) * (TILE.width + TILE_GAP),
    y: grid.y + Math.floor(index / grid.columns) * (TILE.height + TILE_GAP),
    ...TILE,
  };
}

/** A measured domain, before it has a place. */
interface Measured extends Size {
  readonly group: DomainGroup;
  readonly header: number;
  readonly padding: number;
  readonly columns: number;
  readonly grid: Size;
  readonly children: readonly Measured[];
  readonly flow: Flow;
}

class LayoutRun {
  readonly boxes: DomainBox[] = [];
  readonly grids: TileGrid[] = [];
  readonly columns = new Map<string, number>();
  readonly widths = new Map<string, number>();
  readonly aspects: Aspects;
  readonly size: Size;
  /** Lower is better: the inverse of the scale at which the map fits the window. */
  readonly cost: number;
  readonly #options: LayoutOptions;

  constructor(groups: readonly DomainGroup[], options: LayoutOptions, aspects: Aspects) {
    this.#options = options;
    this.aspects = aspects;
    const bare = groups.length === 1 && groups[0]?.label === "" ? groups[0] : undefined;
    this.size = bare === undefined ? this.#placeAll(groups) : this.#placeBare(bare);
    this.cost = shapeCost(this.size, options.aspect);
  }

  /** Places nodes without any domain: one grid without a box. */
  #placeBare(group: DomainGroup): Size {
    const grid = this.#measureGrid(group.key, group.count, this.#options.aspect);
    if (group.count > 0) {
      this.grids.push({ ...grid, x: 0, y: 0, first: group.first, count: group.count });
    }
    return { width: grid.width, height: grid.height };
  }

  /** Places the outermost domains. */
  #placeAll(groups: readonly DomainGroup[]): Size {
    const gap = this.#options.header / 2;
    const measured = groups.map((group) => this.#measure(group));
    const placed = this.#flow("", measured, gap, this.#options.aspect);
    measured.forEach((child, index) => this.#place(child, placed.places[index] ?? { x: 0, y: 0 }));
    return { width: placed.width, height: placed.height };
  }

  #measure(group: DomainGroup): Measured {
    const children = group.children.map((child) => this.#measure(child));
    const levels = levelsBelow(group);
    const header = headerOf(this.#options.header, group.depth, levels);
    const padding = levels === 0 ? 3 : Math.max(Math.min(this.#options.header / 6, 10), 4);
    const aspect = levels === 0 ? this.aspects.leaf : this.aspects.inner;
    const grid = this.#measureGrid(group.key, group.direct, aspect);
    const placed = this.#flow(`${group.key}/`, children, Math.max(padding, 6), this.aspects.inner);
    const between = group.direct > 0 && children.length > 0 ? padding : 0;
    return {
      group,
      header,
      padding,
      columns: grid.columns,
      grid,
      children,
      flow: placed,
      width: Math.max(grid.width, placed.width) + 2 * padding,
      height: header + grid.height + between + placed.height + padding,
    };
  }

  #measureGrid(key: string, count: number, aspect: number): Size & { readonly columns: number } {
    if (count === 0) return { width: 0, height: 0, columns: 1 };
    const pitch = { width: TILE.width + TILE_GAP, height: TILE.height + TILE_GAP };
    const columns = chooseColumns(count, pitch, aspect, this.#options.before?.columns.get(key));
    this.columns.set(key, columns);
    const rows = Math.ceil(count / columns);
    const width = Math.min(columns, count) * pitch.width - TILE_GAP;
    return { columns, width, height: rows * pitch.height - TILE_GAP };
  }

  #flow(key: string, children: readonly Size[], gap: number, aspect: number): Flow {
    if (children.length === 0) return { places: [], width: 0, height: 0 };
    const width = chooseWidth(children, gap, aspect, this.#options.before?.widths.get(key));
    this.widths.set(key, width);
    return flow(children, width, gap);
  }

  #place(measured: Measured, at: { readonly x: number; readonly y: number }): void {
    const { group, header, padding, width, height, grid, columns } = measured;
    const { key, label, level, depth, first, count } = group;
    this.boxes.push({ key, label, level, depth, first, count, header, x: at.x, y: at.y, width, height });
    const left = at.x + padding;
    let top = at.y + header;
    if (group.direct > 0) {
      this.grids.push({ x: left, y: top, width: grid.width, height: grid.height, first, count: group.direct, columns });
      top += grid.height + padding;
    }
    measured.children.forEach((child, index) => {
      const place = measured.flow.places[index] ?? { x: 0, y: 0 };
      this.#place(child, { x: left + place.x, y: top + place.y });
    });
  }
}

/** Labels of outer domains can be read on the whole map; those of inner ones appear with the zoom. */
function headerOf(outermost: number, depth: number, levelsBelow: number): number {
  if (depth === 0) return outermost;
  return levelsBelow === 0 ? Math.min(outermost, 10) : Math.min(outermost, Math.max(outermost / 3, 14));
}

function levelsBelow(group: DomainGroup): number {
  return group.children.reduce((most, child) => Math.max(most, 1 + levelsBelow(child)), 0);
}
