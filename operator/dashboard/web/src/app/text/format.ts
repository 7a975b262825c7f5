/** Formats times, amounts and names as the command line does. Pure. */

import type { Quantity, Time } from "../../wire/cluster";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;

/** Formats the time since then, such as `5h30m`. `operator/cli/src/output/age.rs` has the rules. */
export function formatAge(since: Time | Date, now: Date): string {
  return formatSeconds(wholeSeconds(now) - wholeSeconds(since));
}

/** Formats the time until then; `now` if then is past. */
export function formatUntil(then: Time | Date, now: Date): string {
  const seconds = wholeSeconds(then) - wholeSeconds(now);
  return seconds <= 0 ? "now" : formatSeconds(seconds);
}

/** Formats seconds as kubectl does: small numbers of a unit have the next smaller unit beside them. */
export function formatSeconds(total: number): string {
  const seconds = Number.isFinite(total) ? Math.max(0, Math.floor(total)) : 0;
  const two = (large: number, name: string, small: number, smallName: string): string => {
    const few = Math.floor((seconds % large) / small);
    return `${Math.floor(seconds / large)}${name}${few === 0 ? "" : `${few}${smallName}`}`;
  };
  if (seconds < 2 * MINUTE) return `${seconds}s`;
  if (seconds < 10 * MINUTE) return two(MINUTE, "m", 1, "s");
  if (seconds < 3 * HOUR) return `${Math.floor(seconds / MINUTE)}m`;
  if (seconds < 8 * HOUR) return two(HOUR, "h", MINUTE, "m");
  if (seconds < 2 * DAY) return `${Math.floor(seconds / HOUR)}h`;
  if (seconds < 8 * DAY) return two(DAY, "d", HOUR, "h");
  if (seconds < 2 * YEAR) return `${Math.floor(seconds / DAY)}d`;
  if (seconds < 8 * YEAR) return two(YEAR, "y", DAY, "d");
  return `${Math.floor(seconds / YEAR)}y`;
}

function wholeSeconds(time: Time | Date): number {
  return Math.floor((time instanceof Date ? time.getTime() : Date.parse(time)) / 1_000);
}

const pad = (value: number): string => String(value).padStart(2, "0");

/** Formats a time of day, such as `14:02`, with the date if it is another day. */
export function formatClock(time: Time | Date, now: Date): string {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return String(time);
  const clock = `${pad(at.getHours())}:${pad(at.getMinutes())}`;
  const isToday = at.toDateString() === now.toDateString();
  return isToday ? clock : `${formatDate(at)} ${clock}`;
}

/** Formats a time of day with seconds, such as `14:02:05`. */
export function formatClockSeconds(at: Date): string {
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** Formats a date and time in full, for tooltips. */
export function formatDateTime(time: Time | Date): string {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return String(time);
  return `${formatDate(at)} ${formatClockSeconds(at)}`;
}

function formatDate(at: Date): string {
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
}

/** Suffixes of Kubernetes quantities. */
const SUFFIXES: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** Reads a quantity as a number, for the length of a bar. Undefined: it is no quantity. */
export function parseQuantity(quantity: Quantity | undefined): number | undefined {
  const match = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$/.exec(
    quantity ?? "",
  );
  if (!match) return undefined;
  const factor = SUFFIXES[match[2] ?? ""];
  return factor === undefined ? undefined : Number(match[1]) * factor;
}

const BYTES = new Set(["memory", "ephemeral-storage", "storage"]);
const BYTE_UNITS = ["Ki", "Mi", "Gi", "Ti", "Pi"] as const;

/** Formats an amount. Bytes use the largest unit that gives at least one; other amounts stay as they are. */
export function formatAmount(resource: string, quantity: Quantity): string {
  const isBytes = BYTES.has(resource) || resource.startsWith("hugepages-");
  const bytes = isBytes ? parseQuantity(quantity) : undefined;
  if (bytes === undefined) return quantity;
  const whole = Math.floor(bytes);
  let value = Math.abs(whole);
  let unit = "";
  for (const next of BYTE_UNITS) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  const tenths = Math.floor(value * 10) / 10;
  return `${whole < 0 ? "-" : ""}${tenths}${unit}`;
}

/** Formats a count with thin spaces between thousands, such as `10 000`. */
export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

/** Returns the count with its noun, such as `1 pod` or `3 pods`. */
export function countOf(count: number, noun: string, plural = `${noun}s`): string {
  return `${formatCount(count)} ${count === 1 ? noun : plural}`;
}

/** Returns the name of a job as messages write it: `llm`, `PodGroup/sweep` or `Pod/w-0`. */
export function jobLabel(name: string): string {
  if (name.startsWith("podgroup.")) return `PodGroup/${name.slice("podgroup.".length)}`;
  if (name.startsWith("pod.")) return `Pod/${name.slice("pod.".length)}`;
  return name;
}

/** Returns a resource with its flavor, such as `nvidia.com/gpu (h100)`. */
export function resourceLabel(resource: string, flavor: string): string {
  return flavor === "" || flavor === "default" ? resource : `${resource} (${flavor})`;
}
