/** The changes as text in the URL. Pure. */

import type { ForecastChange } from "../../wire/forecast";

/** Changes that the scheduler accepts at once. */
export const MAX_CHANGES = 64;

/** Longest text of changes in a URL. Servers and proxies refuse much longer URLs. */
export const MAX_TEXT = 4_000;

/** Kinds of changes, in the order of the menu. */
export const KINDS = ["addNodes", "removeNode", "cordonNode", "restoreNode", "changeQueue", "addJob", "changeJob", "removeJob"] as const;

/** A kind of change. */
export type ChangeKind = (typeof KINDS)[number];

/** The changes of a URL, or the reason why its text has none. */
export interface ReadChanges {
  readonly changes: readonly ForecastChange[];
  readonly problem?: string;
}

/** Returns the kind of a change. */
export function kindOf(change: ForecastChange): ChangeKind {
  return KINDS.find((kind) => kind in change) ?? "addNodes";
}

/** True if the change names a queue or a job, and changes nothing of it yet: a link of another page begins it. */
export function isUnfinished(change: ForecastChange): boolean {
  if ("changeQueue" in change) return Object.keys(change.changeQueue).length === 1;
  return "changeJob" in change && Object.keys(change.changeJob).length === 2;
}

/** Writes changes for the URL. No change gives no text. */
export function writeChanges(changes: readonly ForecastChange[]): string | undefined {
  return changes.length === 0 ? undefined : JSON.stringify(changes);
}

/** Reads the text of a URL. It may come from anybody. */
export function readChanges(text: string | null): ReadChanges {
  if (text === null || text === "") return { changes: [] };
  if (text.length > MAX_TEXT) return refuse(`its changes have more than ${MAX_TEXT} characters`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return refuse("its changes are not JSON");
  }
  if (!Array.isArray(value)) return refuse("its changes are not a list");
  if (value.length > MAX_CHANGES) return refuse(`it has more than ${MAX_CHANGES} changes`);
  for (const [place, change] of value.entries()) {
    const problem = findProblem(change);
    if (problem !== undefined) return refuse(`change ${place + 1} ${problem}`);
  }
  return { changes: value as ForecastChange[] };
}

function refuse(problem: string): ReadChanges {
  return { changes: [], problem };
}

type Check = (value: unknown) => boolean;

/** Checks of the fields of an object. A name with `?` may be absent. */
type Fields = Readonly<Record<string, Check>>;

const isText: Check = (value) => typeof value === "string";
const isWhole: Check = (value) => typeof value === "number" && Number.isSafeInteger(value);
const isTextMap: Check = (value) => isObject(value) && Object.values(value).every(isText);

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isLike(fields: Fields): Check {
  return (value) => {
    if (!isObject(value)) return false;
    const isKnown = Object.keys(value).every((name) => Object.hasOwn(fields, name) || Object.hasOwn(fields, `${name}?`));
    return isKnown && Object.entries(fields).every(([field, check]) => {
      const name = field.replace(/\?$/, "");
      return Object.hasOwn(value, name) ? check(value[name]) : name !== field;
    });
  };
}

function isListOf(check: Check): Check {
  return (value) => Array.isArray(value) && value.every(check);
}

const NODE: Fields = { name: isText };
const JOB: Fields = { namespace: isText, name: isText };
const QUOTA: Fields = { resource: isText, "flavor?": isText, "nominal?": isText, "borrowingLimit?": isText, "lendingLimit?": isText };
const GROUP: Fields = { replicas: isWhole, requests: isTextMap };

const FIELDS: Readonly<Record<ChangeKind, Fields>> = {
  addNodes: { like: isText, count: isWhole, "labels?": isTextMap },
  removeNode: NODE,
  cordonNode: NODE,
  restoreNode: NODE,
  changeQueue: { name: isText, "quotas?": isListOf(isLike(QUOTA)), "priority?": isWhole, "weight?": isText, "stopPolicy?": isText },
  addJob: {
    ...JOB,
    "count?": isWhole,
    "like?": isLike(JOB),
    "groups?": isListOf(isLike(GROUP)),
    "queue?": isText,
    "priority?": isWhole,
    "runtimeSeconds?": isWhole,
  },
  changeJob: { ...JOB, "priority?": isWhole, "queue?": isText, "runtimeSeconds?": isWhole },
  removeJob: JOB,
};

function findProblem(change: unknown): string | undefined {
  if (!isObject(change)) return "is not an object";
  const [kind, ...more] = Object.keys(change);
  if (kind === undefined || more.length > 0) return "does not have exactly one field";
  if (!Object.hasOwn(FIELDS, kind)) return "has a kind that this page does not know";
  return isLike(FIELDS[kind as ChangeKind])(change[kind]) ? undefined : "has a field that this page cannot read";
}
