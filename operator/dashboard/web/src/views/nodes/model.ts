/** Content of the page of nodes, from the store and the URL. */

import { computed } from "@preact/signals";

import { nodes, queue } from "../../app/live/store";
import { query, setQuery } from "../../app/page/route";
import { now } from "../../app/server/clock";
import { COLOUR_BY, readColourBy, type ColourBy, type LookContext } from "../../draw/map/look";
import { nodesByGang } from "../../draw/map/scene";
import { sumDevices, type DeviceSums } from "../../draw/node/devices";
import { deviceOf, readFit, rememberFits, sumFits } from "../../draw/node/fit";
import { sortNodes } from "../../draw/node/order";

/** Colours and answers that depend on the time change at most this often, in milliseconds. */
const STEP_MS = 15_000;

/** The nodes in the order of `trellis nodes`. */
export const sortedNodes = computed(() => sortNodes(nodes.nodes.value.values()));

/** The sums of each kind of device. */
export const sums = computed<readonly DeviceSums[]>(() => sumDevices(nodes.nodes.value.values()));

/** Meaning of the colour of a cell. */
export const colourBy = computed<ColourBy>(() => readColourBy(query.value.get("by") ?? undefined));

const steppedTime = computed(() => Math.floor(now.value.getTime() / STEP_MS) * STEP_MS);

/** Jobs and time on which colours depend. */
export const look = computed<LookContext>(() => ({
  by: colourBy.value,
  jobs: queue.jobs.value,
  now: steppedTime.value,
}));

/** The text of the fit lens. */
export const fitText = computed(() => query.value.get("fit") ?? "");

/** The gang of the fit lens, if its text names one. */
export const fitQuery = computed(() => readFit(fitText.value));

/** The kind of device that sums and lens are about. */
export const mainDevice = computed(() => deviceOf(fitQuery.value, nodes.nodes.value.values()));

/** The answer of the fit lens for a node. Undefined: the lens is off. */
export const fitOf = computed(() => {
  const asked = fitQuery.value;
  if (asked === undefined) return undefined;
  return rememberFits({ query: asked, device: mainDevice.value, jobs: queue.jobs.value, now: new Date(steppedTime.value) });
});

/** The sums of the answers of the lens. Undefined: the lens is off. */
export const fitSummary = computed(() => {
  const answer = fitOf.value;
  return answer && sumFits(sortedNodes.value.map(answer), mainDevice.value);
});

/** The chosen gang as `namespace/name`. */
export const chosenGang = computed(() => query.value.get("job") ?? undefined);

/** The chosen queue. */
export const chosenQueue = computed(() => query.value.get("queue") ?? undefined);

/** The gangs that are not dimmed: the chosen one, or those of the chosen queue. Undefined: nothing is dimmed. */
export const litGangs = computed<ReadonlySet<string> | undefined>(() => {
  const gang = chosenGang.value;
  if (gang !== undefined) return new Set([gang]);
  const name = chosenQueue.value;
  if (name === undefined) return undefined;
  return new Set([...queue.jobs.value].filter(([, job]) => job.queue === name).map(([key]) => key));
});

/** The positions of the nodes of each gang, in the order of nodes. */
export const gangNodes = computed(() => nodesByGang(sortedNodes.value));

/** True if the rows are shown as a table. */
export const isTable = computed(() => query.value.get("view") === "table");

/** True if the table has only bad nodes. */
export const isBadOnly = computed(() => query.value.get("state") === "bad");

/** Shows all nodes in the table, or only the bad ones. */
export function showBadOnly(isOn: boolean): void {
  setQuery({ state: isOn ? "bad" : undefined }, { step: true });
}

/** Shows the map or the table. */
export function toggleTable(): void {
  setQuery({ view: isTable.peek() ? undefined : "table" }, { step: true });
}

/** Takes the next thing that colours show. */
export function cycleColour(): void {
  chooseColour(COLOUR_BY[(COLOUR_BY.indexOf(colourBy.peek()) + 1) % COLOUR_BY.length] ?? "gang");
}

/** Chooses what colours show. */
export function chooseColour(by: ColourBy): void {
  setQuery({ by: by === "gang" ? undefined : by });
}

/** Chooses a gang, or none. */
export function chooseGang(gang: string | undefined): void {
  setQuery({ job: gang, queue: undefined });
}
