import { expect, test } from "vitest";

import { describeDifference, describeEnd, describeStart, effectLook, sortMovedJobs, summarizeForecast } from "../../../src/app/what-if/moved-jobs";
import { NOW, after, makeMoved, makeStatus } from "./make";

test("the sum counts each effect", () => {
  const effects = ["Earlier", "Later", "Earlier", "Stops", "Earlier"] as const;
  const jobs = effects.map((effect, place) => makeMoved(`job-${place}`, { effect }));
  expect(summarizeForecast(makeStatus(jobs, 40))).toBe("3 jobs start earlier, 1 starts later, 1 has to stop; 40 jobs do not move.");
  expect(summarizeForecast(makeStatus([makeMoved("a", { effect: "New" })], 1))).toBe("1 job New; 1 job does not move.");
  expect(summarizeForecast(makeStatus([], 2))).toBe("No job moves. 2 jobs start and end as without the changes.");
});

test("the jobs that move most come first", () => {
  const jobs = [
    makeMoved("added", { effect: "Added", after: {} }),
    makeMoved("little", { before: { start: after(20) }, after: { start: after(10) } }),
    makeMoved("much", { before: { start: after(10) }, after: { start: after(300) } }),
    makeMoved("lost", { before: { start: after(10) }, after: {} }),
    makeMoved("end", { before: { placed: true, end: after(60) }, after: { placed: true, end: after(120) } }),
    makeMoved("gained", { before: {}, after: { start: NOW } }),
  ];
  expect(sortMovedJobs(jobs).map(({ name }) => name)).toEqual(["lost", "gained", "much", "end", "little", "added"]);
});

test("a difference says how far a job moves", () => {
  const difference = (before: object, then: object): string => describeDifference(makeMoved("a", { before, after: then }));
  expect(difference({ start: after(120) }, { start: NOW })).toBe("starts 120m earlier");
  expect(difference({ start: NOW }, { start: after(300) })).toBe("starts 5h later");
  expect(difference({ start: NOW }, {})).toBe("has no known start any more");
  expect(difference({}, { start: NOW })).toBe("has a known start");
  expect(difference({ placed: true, end: after(60) }, { placed: true, end: after(30) })).toBe("ends 30m earlier");
  expect(difference({ placed: true, end: after(60) }, { start: after(90) })).toBe("loses its place");
  expect(difference({ placed: true, end: after(60) }, {})).toBe("loses its place, and has no known start");
  expect(describeDifference(makeMoved("a", { after: { start: NOW } }))).toBe("");
});

test("times are seen from the time of the forecast", () => {
  const from = new Date(NOW);
  expect(describeStart(undefined, from)).toBe("–");
  expect(describeStart({ placed: true }, from)).toBe("runs");
  expect(describeStart({}, from)).toBe("unknown");
  expect(describeStart({ start: NOW }, from)).toBe("now");
  expect(describeStart({ start: after(63) }, from)).toBe("in 63m");
  expect(describeEnd({ placed: true, end: after(63), stops: true }, from)).toBe("in 63m, makes room");
});

test("a word that the page does not know is shown as it is", () => {
  expect(effectLook("constructor").word).toBe("constructor");
  expect(effectLook("Stops").word).toBe("stops");
});
