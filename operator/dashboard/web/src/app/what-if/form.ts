/** The form of a change: its fields, and the change that they make. Pure. */

import type { JobRef } from "../../wire/cluster";
import type { AddedTaskGroup, ChangedQuota, ForecastChange } from "../../wire/forecast";
import { parseQuantity } from "../text/format";
import { type ChangeKind, kindOf } from "./changes";

/** Texts of the fields by their names. */
export type Draft = Readonly<Record<string, string>>;

/** A list of names that a field offers. */
export type Offer = "nodes" | "queues" | "jobs" | "resources" | "flavors" | "namespaces";

/** A field of a form. */
export interface Field {
  readonly name: string;
  readonly label: string;
  readonly isRequired?: boolean;
  readonly offers?: Offer;
  readonly placeholder?: string;
  /** Values with their texts. The first one is the default. */
  readonly choices?: readonly (readonly [string, string])[];
  readonly check?: (text: string) => string | undefined;
}

const NODE: readonly Field[] = [{ name: "name", label: "Node", isRequired: true, offers: "nodes" }];
const JOB: Field = { name: "job", label: "Job", isRequired: true, offers: "jobs", placeholder: "NAMESPACE/NAME", check: checkJob };
const PRIORITY: Field = { name: "priority", label: "Priority", check: wholeNumber(-2_147_483_648, 2_147_483_647) };
const RUNTIME: Field = { name: "runtimeSeconds", label: "Runtime in seconds", check: wholeNumber(1, Number.MAX_SAFE_INTEGER) };
const QUEUE: Field = { name: "queue", label: "Queue", offers: "queues" };
const GPU = "nvidia.com/gpu";

/** The fields of each kind of change. */
export const FORMS: Readonly<Record<ChangeKind, readonly Field[]>> = {
  addNodes: [
    { name: "like", label: "Like node", isRequired: true, offers: "nodes" },
    { name: "count", label: "Number of nodes", isRequired: true, check: wholeNumber(1, 10_000) },
    { name: "labels", label: "Other labels", placeholder: "KEY=VALUE, KEY=VALUE", check: checkLabels },
  ],
  removeNode: NODE,
  cordonNode: NODE,
  restoreNode: NODE,
  changeQueue: [
    { ...QUEUE, name: "name", isRequired: true },
    { name: "resource", label: "Resource", offers: "resources", placeholder: GPU },
    { name: "flavor", label: "Flavor", offers: "flavors", placeholder: "the only one" },
    { name: "nominal", label: "Nominal quota", check: checkQuantity },
    { name: "borrowingLimit", label: "Borrowing limit", check: checkQuantity },
    { name: "lendingLimit", label: "Lending limit", check: checkQuantity },
    PRIORITY,
    { name: "weight", label: "Weight", check: checkQuantity },
    {
      name: "stopPolicy",
      label: "Stopped",
      choices: [
        ["", "as now"],
        ["None", "no"],
        ["Hold", "yes, and running jobs stay"],
        ["HoldAndDrain", "yes, and running jobs are evicted"],
      ],
    },
  ],
  addJob: [
    { name: "namespace", label: "Namespace", isRequired: true, offers: "namespaces" },
    { name: "name", label: "Name", isRequired: true },
    { name: "count", label: "Number of jobs", placeholder: "1", check: wholeNumber(1, 1_000) },
    { ...JOB, name: "like", label: "Like job", isRequired: false },
    { name: "replicas", label: "Pods", check: wholeNumber(1, 10_000) },
    { name: "gpus", label: "GPUs a pod", check: wholeNumber(0, 1_000) },
    QUEUE,
    PRIORITY,
    RUNTIME,
  ],
  changeJob: [JOB, PRIORITY, QUEUE, RUNTIME],
  removeJob: [JOB],
};

/** Returns the texts of a new change. */
export function emptyDraft(kind: ChangeKind, namespace: string, jobNumber: number): Draft {
  if (kind === "addNodes") return { count: "1" };
  return kind === "addJob" ? { namespace, name: `added-${jobNumber}` } : {};
}

/** Returns the texts of a change. */
export function draftOf(change: ForecastChange): Draft {
  const draft: Record<string, string> = {};
  const put = (values: object): void => {
    for (const [name, value] of Object.entries(values)) {
      if (typeof value === "string" || typeof value === "number") draft[name] = String(value);
    }
  };
  if ("addNodes" in change) {
    put(change.addNodes);
    draft["labels"] = Object.entries(change.addNodes.labels ?? {}).map(([key, value]) => `${key}=${value}`).join(", ");
  } else if ("changeQueue" in change) {
    put({ ...change.changeQueue, ...change.changeQueue.quotas?.[0], name: change.changeQueue.name });
  } else if ("addJob" in change) {
    const { like, groups, ...own } = change.addJob;
    put(own);
    if (like) draft["like"] = `${like.namespace}/${like.name}`;
    if (groups?.[0]) put({ replicas: groups[0].replicas, gpus: groups[0].requests[GPU] });
  } else if ("changeJob" in change) {
    put({ ...change.changeJob, job: `${change.changeJob.namespace}/${change.changeJob.name}` });
  } else if ("removeJob" in change) {
    draft["job"] = `${change.removeJob.namespace}/${change.removeJob.name}`;
  } else {
    for (const named of Object.values(change)) put(named as object);
  }
  return draft;
}

/** A change, or the problems of the fields by their names. */
export type FormResult = { readonly change: ForecastChange } | { readonly problems: Readonly<Record<string, string>> };

/** Returns the change of a form. Parts of `base` without a field stay as they are. */
export function changeOf(kind: ChangeKind, draft: Draft, base?: ForecastChange): FormResult {
  const problems: Record<string, string> = {};
  const text = (name: string): string => (draft[name] ?? "").trim();
  for (const field of FORMS[kind]) {
    const value = text(field.name);
    const problem = value === "" ? (field.isRequired ? "is needed" : undefined) : field.check?.(value);
    if (problem !== undefined) problems[field.name] = problem;
  }
  const own = base && kindOf(base) === kind ? base : undefined;
  const missing = findMissing(kind, text, own);
  if (missing && problems[missing[0]] === undefined) problems[missing[0]] = missing[1];
  return Object.keys(problems).length > 0 ? { problems } : { change: build(kind, text, own) };
}

/** A change must change something, and a new job needs a shape. */
function findMissing(kind: ChangeKind, text: (name: string) => string, base?: ForecastChange): readonly [string, string] | undefined {
  if (kind === "changeJob" && !text("priority") && !text("queue") && !text("runtimeSeconds")) return ["priority", "or another field is needed"];
  if (kind === "changeQueue") {
    const hasAmount = text("nominal") !== "" || text("borrowingLimit") !== "" || text("lendingLimit") !== "";
    if (text("resource") && !hasAmount) return ["nominal", "or a limit is needed"];
    if (!hasAmount && !text("priority") && !text("weight") && !text("stopPolicy")) return ["nominal", "or another field is needed"];
  }
  if (kind === "addJob") {
    if (text("like") && (text("replicas") || text("gpus"))) return ["replicas", "must be empty: the job is like another one"];
    const hasGroups = base !== undefined && "addJob" in base && (base.addJob.groups?.length ?? 0) > 1;
    if (!text("like") && !text("replicas") && !hasGroups) return ["replicas", "is needed, or a job that it is like"];
    if (!text("like") && !text("queue")) return ["queue", "is needed"];
  }
  return undefined;
}

function build(kind: ChangeKind, text: (name: string) => string, base?: ForecastChange): ForecastChange {
  const texts = (...names: readonly string[]) => pick(names, (name) => text(name) || undefined);
  const numbers = (...names: readonly string[]) => pick(names, (name) => (text(name) ? Number(text(name)) : undefined));
  switch (kind) {
    case "addNodes": {
      const labels = readLabels(text("labels")) ?? {};
      const more = Object.keys(labels).length > 0 ? { labels } : {};
      return { addNodes: { like: text("like"), count: Number(text("count")), ...more } };
    }
    case "removeNode":
      return { removeNode: { name: text("name") } };
    case "cordonNode":
      return { cordonNode: { name: text("name") } };
    case "restoreNode":
      return { restoreNode: { name: text("name") } };
    case "changeQueue": {
      const rest = base && "changeQueue" in base ? (base.changeQueue.quotas ?? []).slice(1) : [];
      const amounts = texts("nominal", "borrowingLimit", "lendingLimit");
      const first: ChangedQuota[] =
        Object.keys(amounts).length > 0 ? [{ resource: text("resource") || GPU, ...texts("flavor"), ...amounts }] : [];
      const quotas = [...first, ...rest];
      return { changeQueue: { name: text("name"), ...(quotas.length > 0 && { quotas }), ...numbers("priority"), ...texts("weight", "stopPolicy") } };
    }
    case "addJob":
      return {
        addJob: {
          namespace: text("namespace"),
          name: text("name"),
          ...numbers("count"),
          ...shapeOf(text, base && "addJob" in base ? (base.addJob.groups ?? []) : []),
          ...texts("queue"),
          ...numbers("priority", "runtimeSeconds"),
        },
      };
    case "changeJob":
      return { changeJob: { ...readJob(text("job")), ...numbers("priority"), ...texts("queue"), ...numbers("runtimeSeconds") } };
    case "removeJob":
      return { removeJob: readJob(text("job")) };
  }
}

function shapeOf(text: (name: string) => string, [own, ...rest]: readonly AddedTaskGroup[]) {
  if (text("like")) return { like: readJob(text("like")) };
  const { [GPU]: _, ...requests } = own?.requests ?? {};
  const gpus = text("gpus") ? { [GPU]: text("gpus") } : {};
  return { groups: [{ replicas: Number(text("replicas")), requests: { ...requests, ...gpus } }, ...rest] };
}

function pick<Value>(names: readonly string[], valueOf: (name: string) => Value | undefined): Record<string, Value> {
  const entries = names.map((name) => [name, valueOf(name)] as const);
  return Object.fromEntries(entries.filter((entry): entry is readonly [string, Value] => entry[1] !== undefined));
}

function wholeNumber(least: number, most: number): (text: string) => string | undefined {
  return (text) => {
    const value = Number(text);
    if (!/^-?\d+$/.test(text) || !Number.isSafeInteger(value)) return "must be a whole number";
    if (value < least) return `must be at least ${least}`;
    return value > most ? `must be at most ${most}` : undefined;
  };
}

function checkQuantity(text: string): string | undefined {
  const amount = parseQuantity(text);
  if (amount === undefined) return "must be an amount, such as 64 or 512Gi";
  return amount < 0 ? "must be at least 0" : undefined;
}

function checkJob(text: string): string | undefined {
  return /^[^/\s]+\/[^/\s]+$/.test(text) ? undefined : "must be NAMESPACE/NAME";
}

function checkLabels(text: string): string | undefined {
  return readLabels(text) ? undefined : "must be KEY=VALUE, separated by commas";
}

function readLabels(text: string): Record<string, string> | undefined {
  const pairs = text.split(",").map((pair) => pair.trim()).filter((pair) => pair !== "").map((pair) => /^([^=\s]+)=(\S*)$/.exec(pair));
  if (pairs.some((pair) => pair === null)) return undefined;
  return Object.fromEntries(pairs.flatMap((pair) => (pair ? [[pair[1] ?? "", pair[2] ?? ""]] : [])));
}

function readJob(text: string): JobRef {
  const [namespace = "", name = ""] = text.split("/");
  return { namespace, name };
}
