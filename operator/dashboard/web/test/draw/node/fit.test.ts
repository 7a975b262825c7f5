import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { sumDevices } from "../../../src/draw/node/devices";
import { deviceOf, fitNode, fitSentence, readFit, sumFits, writeFit, type FitContext, type FitQuery } from "../../../src/draw/node/fit";
import { holesBySize, largestGangs } from "../../../src/draw/node/holes";
import type { JobState, NodeState } from "../../../src/wire/cluster";
import { GPU, hoursFromNow, makeCluster, makeHold, makeNode, NOW } from "../made-up";

const QUERY: FitQuery = { pods: 8, devices: 8, device: undefined };

function context(query: FitQuery = QUERY, jobs: readonly JobState[] = []): FitContext {
  return { query, device: GPU, jobs: new Map(jobs.map((job) => [`${job.metadata.namespace ?? ""}/${job.metadata.name}`, job])), now: NOW };
}

function job(name: string, expectedEnd?: string): JobState {
  const times = { submitted: hoursFromNow(-2), since: hoursFromNow(-1), ...(expectedEnd === undefined ? {} : { expectedEnd }) };
  return { metadata: { namespace: "ml", name }, queue: "ml", priority: 0, gpus: 8, pods: 1, ...times };
}

describe("text of the lens", () => {
  it("reads pods x devices, with or without a device", () => {
    expect(readFit("8x8")).toEqual({ pods: 8, devices: 8, device: undefined });
    expect(readFit(" 2 × 4:amd.com/gpu ")).toEqual({ pods: 2, devices: 4, device: "amd.com/gpu" });
    expect(readFit("4")).toEqual({ pods: 1, devices: 4, device: undefined });
    for (const wrong of ["", "x", "8x", "x8", "0x8", "8x0", "8x8x8", "-1x8", "9999999x1", undefined]) expect(readFit(wrong)).toBeUndefined();
  });

  it("what is written is read again", () => {
    const count = fc.integer({ min: 1, max: 100_000 });
    const query = fc.record({ pods: count, devices: count, device: fc.constantFrom(undefined, GPU) });
    fc.assert(fc.property(query, (asked) => void expect(readFit(writeFit(asked))).toEqual(asked)));
  });

  it("the device is the named one, or the most frequent one", () => {
    const other = makeNode("a", { total: 2 });
    const renamed = { ...other, resources: (other.resources ?? []).map((entry) => ({ ...entry, resource: entry.resource === GPU ? "amd.com/gpu" : entry.resource })) };
    expect(deviceOf(undefined, [renamed, makeNode("b")])).toBe(GPU);
    expect(deviceOf({ ...QUERY, device: "amd.com/gpu" }, [renamed, makeNode("b")])).toBe("amd.com/gpu");
    expect(deviceOf(undefined, [])).toBe("");
  });
});

describe("answers of the lens", () => {
  const why = (node: NodeState, jobs: readonly JobState[] = []): string => fitNode(node, context(QUERY, jobs)).why;

  it("the first thing that keeps a node off is named", () => {
    expect(why(makeNode("a", { reason: "SchedulingDisabled" }))).toBe("SchedulingDisabled: The node is cordoned.");
    expect(why(makeNode("a", { total: 0 }))).toBe("has no nvidia.com/gpu");
    expect(why(makeNode("a", { total: 4 }))).toBe("has 4 devices; a pod needs 8");
    expect(why(makeNode("a", { jobs: [makeHold("ml", "llm", 6, "Running")] }))).toBe("2 of 8 free: ml/llm holds 6");
    expect(why(makeNode("a", { others: 3 }))).toBe("5 of 8 free: pods of no job hold 3");
    expect(why(makeNode("a", { keptFor: [makeHold("ml", "old", 8)] }))).toBe("0 of 8 free: 8 kept for a job that restarts");
  });

  it("of several holders the one is named that gives back enough first", () => {
    const node = makeNode("a", { jobs: [makeHold("ml", "long", 4, "Running"), makeHold("ml", "soon", 4, "Running")] });
    const jobs = [job("long", hoursFromNow(9)), job("soon", hoursFromNow(1))];
    const four = { ...context({ pods: 1, devices: 4, device: undefined }, jobs) };
    expect(fitNode(node, four).why).toBe("0 of 8 free: ml/soon holds 4, which ends in 60m");
  });

  it("a reservation leaves room for short jobs only, unless enough is free beside it", () => {
    const whole = makeNode("a", { reservedFor: [makeHold("ml", "next", 8, undefined, { expectedStart: hoursFromNow(1) })] });
    expect(fitNode(whole, context())).toMatchObject({ kind: "short", pods: 1, why: "reserved for ml/next in 60m: only for a job that ends before" });
    const half = makeNode("a", { reservedFor: [makeHold("ml", "next", 4)] });
    expect(fitNode(half, context({ pods: 1, devices: 4, device: undefined }))).toMatchObject({ kind: "fits", pods: 1 });
  });

  it("a free node fits, and its taints are named", () => {
    expect(fitNode(makeNode("a"), context())).toMatchObject({ kind: "fits", pods: 1, why: `for pods that tolerate ${GPU}=present:NoSchedule` });
  });

  it("sums say whether the gang fits, and how much is missing", () => {
    const nodes = [makeNode("a"), makeNode("b"), makeNode("c", { reservedFor: [makeHold("ml", "next", 8)] })];
    const answer = (pods: number): string => {
      const asked = { pods, devices: 8, device: undefined };
      return fitSentence(asked, sumFits(nodes.map((node) => fitNode(node, context(asked))), GPU));
    };
    expect(answer(2)).toBe("2 pods with 8 nvidia.com/gpu each: fits now; 2 nodes with room for 2 pods.");
    expect(answer(1)).toBe("1 pod with 8 nvidia.com/gpu: fits now; 2 nodes with room for 2 pods.");
    expect(answer(4)).toBe("4 pods with 8 nvidia.com/gpu each: room for 2, 2 missing.");
    expect(answer(3)).toContain("On reserved nodes is room for 1 more");
  });

  it("rooms of all nodes are the pods that `trellis nodes` counts", () => {
    fc.assert(
      fc.property(fc.nat(1000), fc.constantFrom(1, 2, 4, 8), (seed, devices) => {
        const { nodes } = makeCluster({ nodes: 60, seed, waiting: 0 });
        const fits = nodes.map((node) => fitNode(node, context({ pods: 1, devices, device: undefined })));
        const summary = sumFits(fits, GPU);
        expect(summary.pods + summary.shortPods).toBe(sumDevices(nodes)[0]?.pods[[1, 2, 4, 8].indexOf(devices)]);
        for (const fit of fits) expect(fit.pods > 0).toBe(fit.kind !== "off");
        for (const fit of fits) if (fit.kind === "off") expect(fit.why).not.toBe("");
      }),
    );
  });
});

describe("holes", () => {
  it("count nodes by free devices", () => {
    const nodes = [makeNode("a"), makeNode("b", { others: 6 }), makeNode("c", { others: 6 }), makeNode("d", { others: 8 }), makeNode("e", { reason: "NotReady" }), makeNode("f", { total: 2 })];
    expect(holesBySize(nodes, GPU)).toEqual([
      { free: 2, nodes: 2, whole: false },
      { free: 2, nodes: 1, whole: true },
      { free: 8, nodes: 1, whole: true },
    ]);
  });

  it("the largest gang is that of the best domain of each level, from the innermost", () => {
    const nodes = [
      makeNode("a", { domains: ["b1", "r1"], others: 1 }),
      makeNode("b", { domains: ["b1", "r2"] }),
      makeNode("c", { domains: ["b2", "r1"] }),
      makeNode("d", { domains: ["b2", "r1"], others: 5 }),
    ];
    expect(largestGangs(nodes, GPU, 1)).toEqual([
      { level: "rack", domain: "r1", devices: 11 },
      { level: "block", domain: "b1", devices: 15 },
      { level: "", domain: "", devices: 26 },
    ]);
    expect(largestGangs(nodes, GPU, 8).at(-1)?.devices).toBe(16);
  });
});
