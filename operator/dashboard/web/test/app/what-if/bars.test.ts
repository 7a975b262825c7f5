import { expect, test } from "vitest";

import { axisMarks, axisOf, barOf, placeOn } from "../../../src/app/what-if/bars";
import { NOW, after, makeMoved } from "./make";

const time = new Date(NOW);

test("the axis holds every known start", () => {
  const axis = axisOf([makeMoved("a", { before: { start: after(600), end: after(90_000) }, after: { start: NOW, end: after(600) } })], time);
  expect(axis.from).toBeLessThan(time.getTime());
  expect(axis.to).toBeGreaterThan(Date.parse(after(600)));
  expect(axis.to).toBeLessThan(Date.parse(after(90_000)));
});

test("a bar without a known end reaches the edge, and a job without a start has none", () => {
  const axis = axisOf([makeMoved("a", { before: { start: after(60), end: after(120) } })], time);
  expect(barOf({}, axis)).toBeUndefined();
  expect(barOf(undefined, axis)).toBeUndefined();
  const open = barOf({ start: after(60) }, axis);
  expect(open?.isOpen).toBe(true);
  expect((open?.x ?? 0) + (open?.width ?? 0)).toBeCloseTo(100);
  const placed = barOf({ placed: true, end: after(60) }, axis);
  expect(placed?.x).toBe(0);
  expect(placed?.isOpen).toBe(false);
});

test("marks are few and on the axis", () => {
  for (const minutes of [1, 15, 60, 600, 6_000, 600_000]) {
    const axis = axisOf([makeMoved("a", { after: { start: after(minutes) } })], time);
    const marks = axisMarks(axis, time);
    expect(marks.length).toBeGreaterThan(0);
    expect(marks.length).toBeLessThanOrEqual(5);
    for (const { x } of marks) expect(x).toBeGreaterThan(placeOn(axis, time.getTime()));
  }
});
