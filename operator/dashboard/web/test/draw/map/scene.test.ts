import { describe, expect, it } from "vitest";

import { layOut } from "../../../src/draw/layout/layout";
import { columnsFor, detailFor, rowRect, tileParts } from "../../../src/draw/layout/tile";
import { buildScene, changedTiles, hasSameGround, nodesByGang, positionOf, type SceneParts } from "../../../src/draw/map/scene";
import { describeNode } from "../../../src/draw/node/describe";
import { rememberFits } from "../../../src/draw/node/fit";
import { sortNodes } from "../../../src/draw/node/order";
import type { NodeState } from "../../../src/wire/cluster";
import { GPU, hoursFromNow, makeCluster, makeHold, makeNode, NOW } from "../made-up";

function parts(nodes: readonly NodeState[], change: Partial<SceneParts> = {}): SceneParts {
  const sorted = sortNodes(nodes);
  return {
    layout: layOut(sorted, { aspect: 1.5, header: 16 }),
    nodes: new Map(nodes.map((node) => [node.metadata.name, node])),
    look: { by: "gang", jobs: new Map(), now: NOW.getTime() },
    now: NOW,
    fitOf: undefined,
    ...change,
  };
}

describe("scene", () => {
  const { nodes, jobs } = makeCluster({ nodes: 50 });
  const byKey = new Map(jobs.map((job) => [`${job.metadata.namespace ?? ""}/${job.metadata.name}`, job]));

  it("only nodes that look different are drawn again", () => {
    const first = parts(nodes);
    const before = buildScene(first);
    const changed = makeNode("gpu-7", { domains: ["z1", "b01", "r001"], others: 5 });
    const after = buildScene({ ...first, nodes: new Map([...first.nodes, ["gpu-7", changed]]) });
    expect(hasSameGround(before, after)).toBe(true);
    expect(changedTiles(before, after).map((position) => after.layout.names[position])).toEqual(["gpu-7"]);
    expect(changedTiles(before, buildScene(first))).toEqual([]);
  });

  it("another colouring or lens draws everything again", () => {
    const first = parts(nodes);
    const before = buildScene(first);
    expect(hasSameGround(before, buildScene({ ...first, look: { ...first.look, by: "queue" } }))).toBe(false);
    const fitOf = rememberFits({ query: { pods: 1, devices: 8, device: undefined }, device: GPU, jobs: byKey, now: NOW });
    expect(hasSameGround(before, buildScene({ ...first, fitOf }))).toBe(false);
  });

  it("with colours by time left, a tile changes when a job enters another step", () => {
    const look = { by: "time" as const, jobs: byKey, now: NOW.getTime() };
    const first = parts(nodes, { look });
    const later = { ...first, look: { ...look, now: NOW.getTime() + 1000 } };
    expect(changedTiles(buildScene(first), buildScene(later))).toEqual([]);
    const muchLater = { ...first, look: { ...look, now: NOW.getTime() + 6 * 3_600_000 } };
    expect(changedTiles(buildScene(first), buildScene(muchLater)).length).toBeGreaterThan(0);
  });

  it("the nodes of a gang are those that it holds, keeps or has reserved", () => {
    const scene = buildScene(parts([
      makeNode("a", { jobs: [makeHold("ml", "llm", 8, "Running")] }),
      makeNode("b", { keptFor: [makeHold("ml", "llm", 2)] }),
      makeNode("c", { reservedFor: [makeHold("ml", "llm", 4)] }),
      makeNode("d"),
    ]));
    expect(nodesByGang(scene.nodes).get("ml/llm")).toEqual([0, 1, 2]);
    expect(positionOf(scene, "c")).toBe(2);
    expect(positionOf(scene, "gone")).toBeUndefined();
  });
});

describe("tiles", () => {
  it("show more the wider they are", () => {
    expect([10, 40, 100, 200].map(detailFor)).toEqual(["bar", "cells", "names", "jobs"]);
    expect([0, 1, 3, 4, 5, 8, 9, 16, 40].map(columnsFor)).toEqual([1, 1, 4, 4, 8, 8, 16, 16, 16]);
  });

  it("parts of a tile are inside it, and rows of cells do not overlap", () => {
    for (let width = 4; width < 450; width += 3) {
      for (const rows of [1, 2, 3]) {
        const tile = tileParts(width, width / 2, rows);
        const rects = Array.from({ length: rows }, (_, row) => rowRect(tile, row, rows));
        for (const [index, rect] of rects.entries()) {
          expect(rect.height).toBeGreaterThan(0);
          expect(rect.y + rect.height).toBeLessThanOrEqual(width / 2 + 1e-6);
          if (index > 0) expect(rect.y).toBeGreaterThanOrEqual((rects[index - 1]?.y ?? 0) + (rects[index - 1]?.height ?? 0) - 1e-6);
        }
        expect(tile.linesTop + tile.lines * tile.lineHeight).toBeLessThanOrEqual(width / 2 + 4.001);
      }
    }
  });
});

describe("description of a node", () => {
  it("has the words of the command line", () => {
    const node = makeNode("gpu-9", {
      domains: ["z1", "r1"],
      others: 2,
      jobs: [makeHold("team-a", "llm", 2, "Running"), makeHold("team-a", "bert", 2, "Starting")],
      keptFor: [makeHold("team-a", "llm", 2, undefined, { until: hoursFromNow(0.025) })],
      reservedFor: [makeHold("team-a", "next", 4, undefined, { expectedStart: hoursFromNow(1.05) })],
    });
    expect(describeNode(node, NOW)).toBe(
      "gpu-9: Full, 0 of 8 nvidia.com/gpu free, in z1/r1, team-a/llm:2, team-a/bert:2 (Starting), 1 other pod, reserved for team-a/next:4 in 63m, kept for team-a/llm:2 for 90s.",
    );
  });

  it("names what is wrong first", () => {
    expect(describeNode(makeNode("n", { reason: "SchedulingDisabled" }), NOW)).toBe("n: SchedulingDisabled, 8 of 8 nvidia.com/gpu free, The node is cordoned.");
  });
});
