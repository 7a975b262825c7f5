import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { GANG_COLOURS, colourNumber, gangKey, gangOfKey, gangTitle } from "../../../src/draw/base/gang";
import { buildTheme } from "../../../src/draw/base/theme";
import { timeStep, TIME_STEPS } from "../../../src/draw/base/time-left";
import { STATE_PATTERNS, fillOf, readColourBy, COLOUR_BY } from "../../../src/draw/map/look";
import { CELL_STATES, cellRows, runAt, type CellState } from "../../../src/draw/node/cells";
import { STATE_WORDS } from "../../../src/draw/node/describe";
import { apportion, MAX_CELLS, shareCells } from "../../../src/draw/node/share";
import { hoursFromNow, makeHold, makeNode, NOW } from "../made-up";

const theme = buildTheme((token) => token, "");

describe("shares of cells", () => {
  it("are those of the command line", () => {
    expect(shareCells([3, 2, 1, 2])).toEqual([3, 2, 1, 2]);
    expect(shareCells([31, 1, 0, 0])).toEqual([16, 0, 0, 0]);
    expect(shareCells([11, 11, 10, 0])).toEqual([6, 5, 5, 0]);
    expect(shareCells([0, 0, 0, 64])).toEqual([0, 0, 0, 16]);
    expect(shareCells([30, 0, 0, 2])).toEqual([15, 0, 0, 1]);
  });

  it("use all seats, and none differs from its quota by one or more", () => {
    const counts = fc.array(fc.nat(1000), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(counts, fc.integer({ min: 0, max: 64 }), (parts, seats) => {
        const shares = apportion(parts, seats);
        const total = parts.reduce((sum, part) => sum + part, 0);
        expect(shares.reduce((sum, share) => sum + share, 0)).toBe(total === 0 ? 0 : seats);
        shares.forEach((share, index) => expect(Math.abs(share - (seats * (parts[index] ?? 0)) / Math.max(total, 1))).toBeLessThan(1));
      }),
    );
  });
});

describe("cells of a node", () => {
  it("stand in the order jobs, others, kept, free", () => {
    const node = makeNode("gpu-9", { others: 1, jobs: [makeHold("ml", "llm", 2, "Running"), makeHold("ml", "bert", 1, "Starting")], keptFor: [makeHold("ml", "old", 2)] });
    const [row] = cellRows(node);
    expect(row?.runs.map((run) => [run.state, run.gang, run.first, run.cells])).toEqual([
      ["running", "ml/llm", 0, 2],
      ["starting", "ml/bert", 2, 1],
      ["other", undefined, 3, 1],
      ["kept", "ml/old", 4, 2],
      ["free", undefined, 6, 2],
    ]);
    expect(row && runAt(row, 2)?.gang).toBe("ml/bert");
    expect(row && runAt(row, 8)).toBeUndefined();
  });

  it("free devices of a node that takes no pods are blocked", () => {
    const [row] = cellRows(makeNode("gpu-1", { reason: "NotReady", jobs: [makeHold("a", "b", 3, "Stopping")] }));
    expect(row?.runs.map((run) => run.state)).toEqual(["stopping", "blocked"]);
  });

  it("devices that no listed job holds have no gang", () => {
    const node = makeNode("gpu-1", { jobs: [makeHold("a", "b", 4, "Running")] });
    const resources = (node.resources ?? []).map((entry) => (entry.resource === "nvidia.com/gpu" ? { ...entry, jobs: "6", free: "2" } : entry));
    expect(cellRows({ ...node, resources })[0]?.runs.map((run) => [run.gang, run.devices])).toEqual([["a/b", 4], [undefined, 2], [undefined, 2]]);
  });

  it("cells and devices add up for every node", () => {
    const use = fc.record({
      total: fc.integer({ min: 0, max: 200 }),
      parts: fc.array(fc.nat(40), { minLength: 4, maxLength: 4 }),
      reserved: fc.nat(40),
      isBad: fc.boolean(),
    });
    fc.assert(
      fc.property(use, ({ total, parts, reserved, isBad }) => {
        const [a = 0, b = 0, others = 0, kept = 0] = parts;
        const node = makeNode("n", {
          total,
          others,
          jobs: [makeHold("x", "a", a, "Running"), makeHold("x", "b", b, "Stopping")],
          keptFor: [makeHold("x", "k", kept)],
          reservedFor: [makeHold("x", "r", reserved), makeHold("x", "s", 3)],
          ...(isBad ? { reason: "NotReady" } : {}),
        });
        for (const row of cellRows(node)) {
          const held = a + b + others + kept;
          const free = Math.max(total - held, 0);
          expect(row.cells).toBe(Math.min(held + free, MAX_CELLS));
          let next = 0;
          for (const run of row.runs) {
            expect(run.first).toBe(next);
            next += run.cells;
          }
          expect(next).toBe(row.cells);
          for (const bracket of row.brackets) {
            expect(bracket.first).toBeGreaterThanOrEqual(0);
            expect(bracket.cells).toBeGreaterThanOrEqual(1);
            expect(bracket.first + bracket.cells).toBeLessThanOrEqual(row.cells);
          }
        }
      }),
    );
  });
});

describe("look of cells", () => {
  it("each state has a word, and all states differ without colour", () => {
    expect(Object.keys(STATE_WORDS).sort()).toEqual([...CELL_STATES].sort());
    expect(Object.keys(STATE_PATTERNS).sort()).toEqual([...CELL_STATES].sort());
    const isFilled = (state: CellState): boolean => fillOf({ state, gang: "a/b", first: 0, cells: 1, devices: 1 }, { by: "gang", jobs: new Map(), now: 0 }, theme) !== undefined;
    const looks = CELL_STATES.map((state) => `${STATE_PATTERNS[state] ?? "plain"} ${isFilled(state)}`);
    expect(new Set(looks).size).toBe(CELL_STATES.length);
  });

  it("every held cell has a colour in every mode", () => {
    for (const by of COLOUR_BY) {
      for (const state of CELL_STATES) {
        for (const gang of ["ml/llm", undefined]) {
          const fill = fillOf({ state, gang, first: 0, cells: 1, devices: 1 }, { by, jobs: new Map(), now: 0 }, theme);
          expect(fill !== undefined).toBe(state !== "free" && state !== "blocked");
        }
      }
    }
    expect(readColourBy("time")).toBe("time");
    expect(readColourBy("other")).toBe("gang");
  });

  it("time left is in the step below whose bound it is", () => {
    const at = (hours: number) => timeStep(hoursFromNow(hours), NOW.getTime());
    expect([at(-1), at(0.1), at(0.5), at(3.9), at(4), at(23), at(100)]).toEqual([0, 0, 1, 2, 3, 3, 4]);
    expect(timeStep(undefined, 0)).toBeUndefined();
    expect(TIME_STEPS.at(-1)?.below).toBe(Number.POSITIVE_INFINITY);
  });
});

describe("gangs", () => {
  it("the same name has the same colour", () => {
    fc.assert(
      fc.property(fc.string(), (name) => {
        const number = colourNumber(name);
        expect(colourNumber(`${name}`)).toBe(number);
        expect(Number.isInteger(number) && number >= 0 && number < GANG_COLOURS).toBe(true);
      }),
    );
    // Fixed values: a changed hash would change the colours of running jobs between two versions.
    expect(["ml/llm-0", "ml/llm-1", "vision/bert", ""].map(colourNumber)).toEqual(FIXED);
  });

  it("colours are about equally frequent for names that differ in a number", () => {
    const counts = new Array<number>(GANG_COLOURS).fill(0);
    for (let index = 0; index < 12_000; index += 1) {
      const number = colourNumber(`team/job-${index}`);
      counts[number] = (counts[number] ?? 0) + 1;
    }
    for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(150);
  });

  it("names are written as in messages", () => {
    expect(gangTitle({ namespace: "a", name: "podgroup.b.c" })).toBe("a/PodGroup/b.c");
    expect(gangTitle({ namespace: "a", name: "pod.w-0" })).toBe("a/Pod/w-0");
    expect(gangTitle({ namespace: "a", name: "llm" })).toBe("a/llm");
    expect(gangOfKey(gangKey({ namespace: "a", name: "b" }))).toEqual({ namespace: "a", name: "b" });
    expect(gangOfKey("b")).toEqual({ namespace: "", name: "b" });
  });
});

const FIXED = [1, 7, 0, 11];
