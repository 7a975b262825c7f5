/** Counts, states and order agree with `trellis nodes` (`operator/cli/src/nodes/tests.rs`). */

import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { devicesOf, isFree, isPartlyFree, stateWord, sumDevices } from "../../../src/draw/node/devices";
import { compareNodes, nodeName, sortNodes, splitName } from "../../../src/draw/node/order";
import { wholeUnits } from "../../../src/draw/node/quantity";
import type { NodeState } from "../../../src/wire/cluster";
import { GPU, makeHold, makeNode } from "../made-up";

/** The cluster of the tests of the command line. */
function cliCluster(): NodeState[] {
  const hold = (name: string, gpus: number, state?: string) => makeHold("team-a", name, gpus, state ?? "Running");
  return [
    makeNode("gpu-10", { domains: ["z1", "r2"], reservedFor: [makeHold("team-a", "next", 4)] }),
    makeNode("gpu-9", { domains: ["z1", "r1"], others: 2, jobs: [hold("llm", 2), hold("bert", 2, "Starting")], keptFor: [makeHold("team-a", "llm", 2)] }),
    makeNode("gpu-2", { domains: ["z1", "r1"], jobs: [hold("a", 2), hold("b", 2), hold("c", 1), hold("d", 1), hold("e", 2)] }),
    makeNode("gpu-3", { domains: ["z1", "r2"], jobs: [hold("x", 3)], reason: "Unhealthy" }),
  ];
}

describe("counts of devices", () => {
  it("sums are those of the command line", () => {
    const [gpus, ...more] = sumDevices(cliCluster());
    expect(more).toEqual([]);
    expect(gpus).toEqual({ device: GPU, total: 32, jobs: 15, others: 2, kept: 2, free: 13, usable: 8, pods: [8, 4, 2, 1] });
  });

  it("states are those of the command line", () => {
    const words = sortNodes(cliCluster()).map((node) => [nodeName(node), stateWord(node)]);
    expect(words).toEqual([["gpu-2", "Full"], ["gpu-9", "Full"], ["gpu-3", "Unhealthy"], ["gpu-10", "Idle"]]);
  });

  it("a node without devices is idle, or mixed if a job is on it", () => {
    const bare = makeNode("cpu-1", { total: 0 });
    expect(devicesOf(bare)).toEqual([]);
    expect(stateWord(bare)).toBe("Idle");
    expect(stateWord({ ...bare, jobs: [makeHold("a", "b", 0)] })).toBe("Mixed");
    expect(isFree(bare)).toBe(false);
  });

  it("free devices of a broken node are free but not usable", () => {
    const broken = makeNode("gpu-1", { reason: "NotReady" });
    expect(sumDevices([broken])[0]).toMatchObject({ free: 8, usable: 0, pods: [0, 0, 0, 0] });
    expect(isFree(broken)).toBe(false);
    expect(isPartlyFree(broken)).toBe(false);
  });

  it("an absent free amount counts as none", () => {
    const shrunk = makeNode("gpu-1", { total: 4, jobs: [makeHold("a", "b", 8, "Running")] });
    expect(devicesOf(shrunk)[0]?.free).toBe(0);
    expect(stateWord(shrunk)).toBe("Full");
  });

  it("sums of all nodes are the sums of their parts", () => {
    const node = fc.record({ jobs: fc.integer({ min: 0, max: 5 }), others: fc.integer({ min: 0, max: 3 }), bad: fc.boolean() });
    fc.assert(
      fc.property(fc.array(node, { maxLength: 30 }), (uses) => {
        const nodes = uses.map((use, index) => makeNode(`n-${index}`, { others: use.others, jobs: [makeHold("a", "b", use.jobs, "Running")], ...(use.bad ? { reason: "NotReady" } : {}) }));
        const sum = sumDevices(nodes)[0] ?? { total: 0, jobs: 0, others: 0, kept: 0, free: 0, usable: 0, pods: [0, 0, 0, 0] };
        expect(sum.total).toBe(8 * uses.length);
        expect(sum.jobs + sum.others + sum.kept + sum.free).toBe(sum.total);
        expect(sum.usable).toBeLessThanOrEqual(sum.free);
        const [ones = 0, twos = 0, fours = 0, eights = 0] = sum.pods;
        expect(ones).toBe(sum.usable);
        expect(ones).toBeGreaterThanOrEqual(2 * twos);
        expect(twos).toBeGreaterThanOrEqual(2 * fours);
        expect(fours).toBeGreaterThanOrEqual(2 * eights);
      }),
    );
  });
});

describe("order of nodes", () => {
  it("domains come first, then names with numbers in numeric order", () => {
    expect(sortNodes(cliCluster()).map(nodeName)).toEqual(["gpu-2", "gpu-9", "gpu-3", "gpu-10"]);
    const names = ["b10", "b9", "a", "b9x2", "b9x10", "b"];
    expect(sortNodes(names.map((name) => makeNode(name))).map(nodeName)).toEqual(["a", "b", "b9", "b9x2", "b9x10", "b10"]);
  });

  it("a name is split as in the command line", () => {
    expect(splitName("node-10a")).toEqual([{ word: "node-", number: 10 }, { word: "a", number: 0 }]);
    expect(splitName("7")).toEqual([{ word: "", number: 7 }]);
    expect(splitName("")).toEqual([]);
  });

  it("the order is total", () => {
    const name = fc.stringMatching(/^[a-c]{0,2}[0-9]{0,3}(-[0-9]{1,2})?$/);
    const node = fc.tuple(name, fc.array(fc.constantFrom("r1", "r2", "r10"), { maxLength: 2 })).map(([text, domains]) => makeNode(text, { domains }));
    fc.assert(
      fc.property(node, node, node, (a, b, c) => {
        expect(Math.sign(compareNodes(a, b)) + Math.sign(compareNodes(b, a))).toBe(0);
        if (compareNodes(a, b) <= 0 && compareNodes(b, c) <= 0) expect(compareNodes(a, c)).toBeLessThanOrEqual(0);
      }),
    );
  });
});

describe("quantities", () => {
  it("are rounded down to whole units, without floating point", () => {
    const cases: readonly [string, number][] = [
      ["8", 8], ["1500m", 1], ["500m", 0], ["1Gi", 2 ** 30], ["4.5Gi", 4.5 * 2 ** 30], ["0.29e2", 29], ["2k", 2000],
      ["1E3", 1000], ["1E", 1e18], ["-1500m", -2], ["+3", 3], [".5k", 500], ["", 0], ["x", 0], ["1x", 0], ["9".repeat(40), 0],
    ];
    for (const [text, units] of cases) expect([text, wholeUnits(text)]).toEqual([text, units]);
    expect(wholeUnits(undefined)).toBe(0);
  });

  it("whole numbers stay as they are", () => {
    fc.assert(fc.property(fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }), (count) => void expect(wholeUnits(String(count))).toBe(count)));
  });
});
