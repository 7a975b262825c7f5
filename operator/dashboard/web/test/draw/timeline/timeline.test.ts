import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { curveAt, foreseenCurve } from "../../../src/draw/timeline/free-curve";
import { spansOf } from "../../../src/draw/timeline/job-spans";
import { buildRows, heightOf, rowAt, rowOfJob, stepRow } from "../../../src/draw/timeline/rows";
import { openingWindow, panTime, placeOf, readHours, readWindow, ticksOf, timeAt, writeHours, zoomTime, type TimeScale } from "../../../src/draw/timeline/time-scale";
import type { JobState } from "../../../src/wire/cluster";
import { hoursFromNow, makeCluster, NOW } from "../made-up";

const HOUR = 3_600_000;
const now = NOW.getTime();
const window = fc.record({ back: fc.integer({ min: -40, max: 40 }), length: fc.integer({ min: 1, max: 200 }) }).map(({ back, length }) => ({ back: back * HOUR, ahead: (length - back) * HOUR }));

function scaleOf(back: number, ahead: number, width = 1000): TimeScale {
  return { window: { back: back * HOUR, ahead: ahead * HOUR }, now, left: 100, width };
}

describe("time scale", () => {
  it("a place and its time belong together", () => {
    fc.assert(
      fc.property(window, fc.integer({ min: 100, max: 1100 }), (visible, place) => {
        const scale = { window: visible, now, left: 100, width: 1000 };
        expect(placeOf(scale, timeAt(scale, place))).toBeCloseTo(place, 4);
      }),
    );
    expect(placeOf(scaleOf(24, 24), now)).toBe(600);
  });

  it("a zoom keeps the time under the pointer", () => {
    fc.assert(
      fc.property(window, fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0.5, max: 2, noNaN: true }), (visible, part, factor) => {
        const scale = { window: visible, now, left: 0, width: 1000 };
        const zoomed = { ...scale, window: zoomTime(visible, part, factor) };
        expect(Math.abs(timeAt(zoomed, part * 1000) - timeAt(scale, part * 1000))).toBeLessThan(1000);
      }),
    );
  });

  it("a move keeps the length", () => {
    const moved = panTime({ back: 24 * HOUR, ahead: 12 * HOUR }, 0.5);
    expect(moved).toEqual({ back: 6 * HOUR, ahead: 30 * HOUR });
  });

  it("marks are in order, apart, and at whole steps", () => {
    fc.assert(
      fc.property(window, fc.integer({ min: 200, max: 2000 }), (visible, width) => {
        const scale = { window: visible, now, left: 0, width };
        const places = ticksOf(scale).map((tick) => placeOf(scale, tick.at));
        for (const [index, place] of places.entries()) {
          expect(place).toBeGreaterThanOrEqual(-1e-6);
          expect(place).toBeLessThanOrEqual(width + 1e-6);
          if (index > 0) expect(place - (places[index - 1] ?? 0)).toBeGreaterThan(30);
        }
        for (const tick of ticksOf(scale)) expect(tick.at % 60_000).toBe(0);
      }),
    );
  });

  it("the window is written in hours, and read from minutes, hours and days", () => {
    expect([writeHours(-24 * HOUR), writeHours(1.5 * HOUR)]).toEqual(["-24h", "1.5h"]);
    expect([readHours("90m"), readHours("-24h"), readHours("2d"), readHours("1.5h")]).toEqual([1.5 * HOUR, -24 * HOUR, 48 * HOUR, 1.5 * HOUR]);
    for (const wrong of [undefined, "", "h", "1", "1w", "--1h", "1e3h"]) expect(readHours(wrong)).toBeUndefined();
    expect(readWindow("-24h", "12h")).toEqual({ back: 24 * HOUR, ahead: 12 * HOUR });
    for (const [from, to] of [["12h", "-24h"], ["0h", "0h"], ["-999d", "0h"]] as const) expect(readWindow(from, to)).toBeUndefined();
  });

  it("a timeline opens 24 hours back, and ahead to most of the ends", () => {
    expect(openingWindow([], now)).toEqual({ back: 24 * HOUR, ahead: 6 * HOUR });
    expect(openingWindow([now + 9 * HOUR, now - HOUR, Number.NaN], now)).toEqual({ back: 24 * HOUR, ahead: 12 * HOUR });
    expect(openingWindow([now + 900 * HOUR], now).ahead).toBe(48 * HOUR);
  });
});

function job(change: Partial<JobState>): JobState {
  return { metadata: { namespace: "ml", name: "llm" }, queue: "ml", priority: 0, phase: "Running", gpus: 8, pods: 1, submitted: hoursFromNow(-5), since: hoursFromNow(-3), ...change };
}

const queued = (change: Partial<JobState>): JobState => job({ phase: "Queued", position: 1, since: hoursFromNow(-5), ...change });

describe("stretches of a job", () => {
  it("a placed job has waited, runs, and is expected to end", () => {
    expect(spansOf(job({ expectedEnd: hoursFromNow(2) }), now)).toMatchObject({
      wait: { from: now - 5 * HOUR, to: now - 3 * HOUR },
      solid: { from: now - 3 * HOUR, to: now },
      hatched: { from: now, to: now + 2 * HOUR },
      outline: undefined,
      isOverdue: false,
    });
  });

  it("an unknown end is open, and a passed end is overdue", () => {
    expect(spansOf(job({}), now).hatched).toEqual({ from: now, to: undefined });
    const late = spansOf(job({ expectedEnd: hoursFromNow(-1) }), now);
    expect([late.isOverdue, late.hatched]).toEqual([true, undefined]);
  });

  it("a pending job waits, and has an outline from its foreseen start", () => {
    const known = spansOf(queued({ expectedStart: hoursFromNow(1), expectedEnd: hoursFromNow(4) }), now);
    expect(known).toMatchObject({ wait: { from: now - 5 * HOUR, to: now }, foreseenWait: { from: now, to: now + HOUR }, outline: { from: now + HOUR, to: now + 4 * HOUR }, solid: undefined });
    expect(spansOf(queued({}), now).outline).toBeUndefined();
    expect(spansOf(queued({ expectedStart: hoursFromNow(-1) }), now)).toMatchObject({ foreseenWait: undefined, outline: { from: now, to: undefined } });
    expect(spansOf(queued({ reason: "ExceedsCluster", expectedStart: hoursFromNow(1) }), now)).toMatchObject({ isNever: true, outline: undefined });
  });

  it("no stretch ends before it begins", () => {
    const hours = fc.option(fc.integer({ min: -50, max: 50 }), { nil: undefined });
    const time = (value: number | undefined): string | undefined => (value === undefined ? undefined : hoursFromNow(value));
    fc.assert(
      fc.property(fc.boolean(), fc.integer({ min: -50, max: 5 }), fc.integer({ min: -50, max: 5 }), hours, hours, (isPending, submitted, since, start, end) => {
        const [expectedStart, expectedEnd] = [time(start), time(end)];
        const times = { submitted: hoursFromNow(submitted), since: hoursFromNow(since), ...(expectedStart ? { expectedStart } : {}), ...(expectedEnd ? { expectedEnd } : {}) };
        const { past, isOverdue: _, isNever: __, isGone: ___, ...spans } = spansOf(isPending ? queued(times) : job(times), now);
        expect(past).toEqual([]);
        for (const span of Object.values(spans)) if (span?.to !== undefined) expect(span.to).toBeGreaterThanOrEqual(span.from);
      }),
    );
  });
});

describe("curve of free GPUs", () => {
  it("rises where jobs end and falls where jobs start", () => {
    const jobs = [
      job({ gpus: 8, expectedEnd: hoursFromNow(1) }),
      job({ gpus: 16 }),
      job({ gpus: 4, expectedEnd: hoursFromNow(-1) }),
      queued({ gpus: 8, expectedStart: hoursFromNow(1), expectedEnd: hoursFromNow(3) }),
      queued({ gpus: 64 }),
    ];
    const curve = foreseenCurve(jobs, { total: 40, usable: 4 }, now);
    expect(curve).toMatchObject({ kind: "free", top: 40 });
    expect([0, 0.5, 1, 2, 3, 9].map((hours) => curveAt(curve, now + hours * HOUR))).toEqual([4, 4, 4, 4, 12, 12]);
    expect(curveAt(curve, now - 1)).toBeUndefined();
  });

  it("without the nodes it shows what the jobs hold", () => {
    const curve = foreseenCurve([job({ gpus: 8, expectedEnd: hoursFromNow(1) }), job({ gpus: 16 })], undefined, now);
    expect(curve).toEqual({ kind: "held", top: 24, steps: [{ at: now, gpus: 24 }, { at: now + HOUR, gpus: 16 }] });
  });

  it("stays between 0 and the top, in the order of time", () => {
    fc.assert(
      fc.property(fc.nat(500), fc.nat(100), (seed, usable) => {
        const { jobs } = makeCluster({ nodes: 40, seed, waiting: 20 });
        const curve = foreseenCurve(jobs, { total: 320, usable }, now);
        curve.steps.forEach((step, index) => {
          expect(step.gpus >= 0 && step.gpus <= curve.top).toBe(true);
          if (index > 0) expect(step.at).toBeGreaterThan(curve.steps[index - 1]?.at ?? 0);
        });
      }),
    );
  });
});

describe("rows of the timeline", () => {
  it("each queue has a heading, and below it its jobs: placed ones first, then by position", () => {
    const rows = buildRows([
      job({ queue: "b", metadata: { namespace: "ml", name: "x" } }),
      queued({ queue: "a", position: 2, metadata: { namespace: "ml", name: "second" } }),
      queued({ queue: "a", position: 1, metadata: { namespace: "ml", name: "first" } }),
      job({ queue: "a", gpus: 16, metadata: { namespace: "ml", name: "runs" } }),
    ]);
    expect(rows.rows.map((row) => (row.kind === "queue" ? row.queue : row.key))).toEqual(["a", "ml/runs", "ml/first", "ml/second", "b", "ml/x"]);
    expect(rows.rows[0]).toEqual({ kind: "queue", queue: "a", placed: 1, pending: 2, gpus: 16, ended: 0 });
    expect(rowOfJob(rows, "ml/first")).toBe(2);
    expect(rowOfJob(rows, "ml/none")).toBeUndefined();
  });

  it("a row is found at its place, and keys walk from job to job", () => {
    const rows = buildRows(makeCluster({ nodes: 50 }).jobs);
    for (let index = 0; index < rows.rows.length; index += 1) {
      expect(rowAt(rows, rows.tops[index] ?? 0)).toBe(index);
      expect(rowAt(rows, (rows.tops[index + 1] ?? 0) - 0.1)).toBe(index);
    }
    expect(rowAt(rows, -1)).toBeUndefined();
    expect(rowAt(rows, heightOf(rows))).toBeUndefined();
    expect(stepRow(rows, undefined, 1)).toBe(1);
    expect(stepRow(rows, 1, -1)).toBe(1);
    expect(stepRow(rows, 1, 10_000)).toBe(rows.rows.length - 1);
    expect(stepRow(buildRows([]), undefined, 1)).toBeUndefined();
  });
});
