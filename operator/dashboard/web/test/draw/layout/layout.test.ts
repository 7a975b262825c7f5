import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { type Rect, contains, overlaps } from "../../../src/draw/base/geometry";
import { cellAt, nodeAt, visitNodesIn } from "../../../src/draw/layout/hit";
import { headerFor, layOut, tileOf, type LayoutOptions, type MapLayout } from "../../../src/draw/layout/layout";
import { haveSamePlaces, LayoutKeeper } from "../../../src/draw/layout/layout-keeper";
import { walk, walkGrid } from "../../../src/draw/layout/walk";
import { groupByDomain } from "../../../src/draw/node/domains";
import { sortNodes } from "../../../src/draw/node/order";
import type { NodeState } from "../../../src/wire/cluster";
import { makeCluster, makeHold, makeNode } from "../made-up";

const OPTIONS: LayoutOptions = { aspect: 1.6, header: 16 };

/** Nodes in up to three levels of domains, some in none. */
const clusters = fc
  .array(fc.tuple(fc.nat(2), fc.nat(2), fc.nat(4), fc.integer({ min: 0, max: 3 }), fc.nat(60)), { maxLength: 70 })
  .map((places) => {
    const nodes = new Map<string, NodeState>();
    for (const [zone, block, rack, depth, number] of places) {
      const domains = [`z${zone}`, `b${block}`, `r${rack}`].slice(0, depth);
      const name = `n${domains.join("")}-${number}`;
      nodes.set(name, makeNode(name, { domains }));
    }
    return sortNodes(nodes.values());
  });

function tiles(layout: MapLayout): Rect[] {
  return layout.names.map((_, position) => tileOf(layout, position) as Rect);
}

describe("layout", () => {
  it("no two nodes overlap, and all are inside the map", () => {
    fc.assert(
      fc.property(clusters, fc.double({ min: 0.4, max: 3, noNaN: true }), (nodes, aspect) => {
        const layout = layOut(nodes, { aspect, header: 16 });
        const rects = tiles(layout);
        rects.forEach((rect, index) => {
          expect(rect.x >= 0 && rect.y >= 0 && rect.x + rect.width <= layout.width + 1e-6 && rect.y + rect.height <= layout.height + 1e-6).toBe(true);
          for (const other of rects.slice(index + 1)) expect(overlaps(rect, other)).toBe(false);
        });
      }),
    );
  });

  it("each node is inside the boxes of its domains, and of no others", () => {
    fc.assert(
      fc.property(clusters, (nodes) => {
        const layout = layOut(nodes, OPTIONS);
        nodes.forEach((node, position) => {
          const tile = tileOf(layout, position) as Rect;
          const inside = layout.boxes.filter((box) => contains(box, tile) && box.key !== "").map((box) => box.label);
          expect(inside).toEqual((node.domains ?? []).map((entry) => entry.domain));
        });
      }),
    );
  });

  it("usage of nodes changes nothing", () => {
    const { nodes } = makeCluster({ nodes: 200 });
    const used = nodes.map((node) => makeNode(node.metadata.name, { domains: (node.domains ?? []).map((entry) => entry.domain), others: 3 }));
    expect(layOut(sortNodes(used), OPTIONS)).toEqual(layOut(sortNodes(nodes), OPTIONS));
    const keeper = new LayoutKeeper();
    const window = { width: 900, height: 600 };
    expect(keeper.layoutOf(sortNodes(used), window)).toBe(keeper.layoutOf(sortNodes(nodes), window));
  });

  it("a node that comes or goes leaves the nodes of all other domains as they stand in their domains", () => {
    fc.assert(
      fc.property(clusters, fc.nat(), (nodes, seed) => {
        if (nodes.length < 2) return;
        const gone = nodes[seed % nodes.length] as NodeState;
        const rest = nodes.filter((node) => node !== gone);
        const before = layOut(nodes, OPTIONS);
        const after = layOut(rest, { ...OPTIONS, before: before.shape });
        // Shapes of boxes change only when the window would otherwise be filled much worse.
        fc.pre(after.shape.aspects === before.shape.aspects);
        const domain = (node: NodeState): string => (node.domains ?? []).map((entry) => `${entry.domain}/`).join("");
        for (const node of rest) {
          if (domain(gone).startsWith(domain(node))) continue;
          expect(offsetInBox(after, node)).toEqual(offsetInBox(before, node));
        }
      }),
    );
  });

  it("the last node comes and goes without moving any other", () => {
    const nodes = sortNodes(makeCluster({ nodes: 400 }).nodes);
    const before = layOut(nodes, OPTIONS);
    const after = layOut(nodes.slice(0, -1), { ...OPTIONS, before: before.shape });
    expect(tiles(after)).toEqual(tiles(before).slice(0, -1));
  });

  it("a level that names the node itself makes no box", () => {
    const node = makeNode("gpu-1", { domains: ["r1"] });
    const named = { ...node, domains: [...(node.domains ?? []), { topology: "dc", level: "host", domain: "gpu-1" }] };
    expect(groupByDomain([named])).toEqual(groupByDomain([node]));
    expect(haveSamePlaces([node], [named])).toBe(false);
  });

  it("nodes without domains are in one box beside the domains, or in none if no node has domains", () => {
    const bare = [makeNode("a"), makeNode("b")];
    expect(layOut(bare, OPTIONS).boxes).toEqual([]);
    const mixed = layOut(sortNodes([...bare, makeNode("c", { domains: ["r1"] })]), OPTIONS);
    expect(mixed.boxes.map((box) => box.label)).toEqual(["no domain", "r1"]);
    expect(layOut([], OPTIONS)).toMatchObject({ width: 0, height: 0, grids: [] });
  });

  it("5,000 nodes fill most of the window and are laid out in 150 ms", () => {
    const nodes = sortNodes(makeCluster({ nodes: 5000 }).nodes);
    const started = performance.now();
    const layout = layOut(nodes, { aspect: 1.6, header: headerFor(5000, 1200 * 750) });
    expect(performance.now() - started).toBeLessThan(150 * SLOW_MACHINE);
    const scale = Math.min(1200 / layout.width, 750 / layout.height);
    expect(5000 * 64 * 32 * scale * scale).toBeGreaterThan(0.4 * 1200 * 750);
  });
});

/** Other work on the machine must not fail a test. */
const SLOW_MACHINE = 10;

function offsetInBox(layout: MapLayout, node: NodeState): { x: number; y: number } {
  const tile = tileOf(layout, layout.positions.get(node.metadata.name) ?? -1) as Rect;
  const box = layout.boxes.filter((candidate) => contains(candidate, tile)).at(-1);
  const round = (value: number): number => Math.round(value * 1000) / 1000;
  return { x: round(tile.x - (box?.x ?? 0)), y: round(tile.y - (box?.y ?? 0)) };
}

describe("hit testing", () => {
  it("finds the node that the layout placed, and nothing between nodes", () => {
    fc.assert(
      fc.property(clusters, fc.double({ min: 0, max: 0.999, noNaN: true }), fc.double({ min: 0, max: 0.999, noNaN: true }), (nodes, across, down) => {
        const layout = layOut(nodes, OPTIONS);
        tiles(layout).forEach((tile, position) => {
          expect(nodeAt(layout, { x: tile.x + across * tile.width, y: tile.y + down * tile.height })).toBe(position);
          expect(nodeAt(layout, { x: tile.x + across * tile.width, y: tile.y - 1 })).toBeUndefined();
        });
        expect(nodeAt(layout, { x: -5, y: -5 })).toBeUndefined();
      }),
    );
  });

  it("visits exactly the nodes whose tiles touch an area", () => {
    const number = fc.double({ min: -50, max: 900, noNaN: true });
    const size = fc.double({ min: 1, max: 500, noNaN: true });
    fc.assert(
      fc.property(clusters, number, number, size, size, (nodes, x, y, width, height) => {
        const layout = layOut(nodes, OPTIONS);
        const area = { x, y, width, height };
        const seen = new Set<number>();
        visitNodesIn(layout, area, (position) => seen.add(position));
        tiles(layout).forEach((tile, position) => {
          if (overlaps(tile, area)) expect(seen.has(position)).toBe(true);
          // The gap beside a tile may count as touched.
          else if (seen.has(position)) expect(overlaps({ x: tile.x - 5, y: tile.y - 5, width: tile.width + 10, height: tile.height + 10 }, area)).toBe(true);
        });
      }),
    );
  });

  it("finds the cell under the pointer", () => {
    const node = makeNode("n", { jobs: [makeHold("a", "x", 2, "Running"), makeHold("a", "y", 4, "Running")] });
    const tile = { width: 100, height: 50 };
    const gangs = [10, 35, 60, 90].map((x) => cellAt(node, { x, y: 35 }, tile, 8)?.run.gang);
    expect(gangs).toEqual(["a/x", "a/y", "a/y", undefined]);
    expect(cellAt(node, { x: 10, y: 5 }, tile, 8)).toBeUndefined();
    expect(cellAt(makeNode("m", { total: 0 }), { x: 10, y: 35 }, tile, 8)).toBeUndefined();
  });
});

describe("walking with keys", () => {
  it("every node is reached, and each step stays on the map", () => {
    fc.assert(
      fc.property(clusters, (nodes) => {
        if (nodes.length === 0) return;
        const layout = layOut(nodes, OPTIONS);
        let position = 0;
        for (let step = 1; step < nodes.length; step += 1) {
          position = walk(layout, position, "right");
          expect(position).toBe(step);
        }
        for (const direction of ["left", "right", "up", "down"] as const) {
          const next = walk(layout, position, direction);
          expect(next).toBeGreaterThanOrEqual(0);
          expect(next).toBeLessThan(nodes.length);
        }
      }),
    );
  });

  it("down goes to a lower tile, and up to a higher one", () => {
    const layout = layOut(sortNodes(makeCluster({ nodes: 120 }).nodes), OPTIONS);
    layout.names.forEach((_, position) => {
      const [down, up] = [walk(layout, position, "down"), walk(layout, position, "up")];
      const y = (at: number): number => tileOf(layout, at)?.y ?? 0;
      if (down !== position) expect(y(down)).toBeGreaterThan(y(position));
      if (up !== position) expect(y(up)).toBeLessThan(y(position));
    });
    expect(walkGrid(layout, 3, 1)).toBe(16);
    expect(walkGrid(layout, 20, -1)).toBe(0);
  });
});
