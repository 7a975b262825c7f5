/** The command line that asks the same question. Pure. */

import type { ChangedQueue, ForecastChange } from "../../wire/forecast";
import { command } from "../text/shell-quote";
import { writeYaml } from "../text/yaml";

const GPU = "nvidia.com/gpu";

/** Options in the order in which `trellis what-if` makes their changes. */
const ORDER = [
  "--add-nodes",
  "--restore",
  "--cordon",
  "--remove-node",
  "--quota",
  "--queue-priority",
  "--stop-queue",
  "--remove-job",
  "--priority",
  "--runtime",
  "--move",
  "--add-job",
];

interface Option {
  readonly name: string;
  readonly value: string;
  /** The object that the option changes. Options of one object must stay in their order. */
  readonly subject: string;
  readonly namespace?: string;
}

/** Names without characters that have a meaning in the value of an option. */
const NAME = /^[A-Za-z0-9](?:[-_.A-Za-z0-9]*[A-Za-z0-9])?$/;
const RESOURCE = /^[A-Za-z0-9](?:[-_./A-Za-z0-9]*[A-Za-z0-9])?$/;
const AMOUNT = /^[0-9.]+[A-Za-z]*$/;

/** Returns the command, or undefined if its options cannot say these changes. */
export function whatIfCommand(changes: readonly ForecastChange[], context?: string | null): string | undefined {
  const options: Option[] = [];
  let jobs = 0;
  for (const change of changes) {
    if ("addJob" in change) jobs += 1;
    const own = optionsOf(change, jobs);
    if (!own) return undefined;
    options.push(...own);
  }
  if (options.length === 0 || !keepsOrder(options)) return undefined;
  const namespaces = new Set(options.flatMap(({ namespace }) => namespace ?? []));
  if (namespaces.size > 1) return undefined;
  const where = [...namespaces].flatMap((namespace) => ["-n", namespace]);
  const own = options.flatMap(({ name, value }) => [name, value]);
  return command("trellis", "what-if", ...own, ...where, ...(context ? ["--context", context] : []));
}

/** The command makes changes in the order of its kinds of options, not in the order of the list. */
function keepsOrder(options: readonly Option[]): boolean {
  return options.every((option, place) =>
    options.slice(place + 1).every((later) => ORDER.indexOf(later.name) >= ORDER.indexOf(option.name) || later.subject !== option.subject),
  );
}

function optionsOf(change: ForecastChange, jobNumber: number): readonly Option[] | undefined {
  if ("addNodes" in change) {
    const { like, count, labels } = change.addNodes;
    if (Object.keys(labels ?? {}).length > 0 || !NAME.test(like)) return undefined;
    return [{ name: "--add-nodes", value: `${like}=${count}`, subject: `node ${like}` }];
  }
  if ("removeNode" in change) return nodeOption("--remove-node", change.removeNode.name);
  if ("cordonNode" in change) return nodeOption("--cordon", change.cordonNode.name);
  if ("restoreNode" in change) return nodeOption("--restore", change.restoreNode.name);
  if ("changeQueue" in change) return queueOptions(change.changeQueue);
  if ("addJob" in change) {
    const { namespace, name, queue, groups, count = 1, ...more } = change.addJob;
    const [group, ...others] = groups ?? [];
    const gpus = group?.requests[GPU] ?? "";
    const isPlain = Object.keys(more).length === 0 && others.length === 0 && count === 1 && name === `added-${jobNumber}`;
    const isSayable = isPlain && group && Object.keys(group.requests).length === 1 && /^\d+$/.test(gpus);
    if (!isSayable || queue === undefined || !NAME.test(queue) || !NAME.test(namespace)) return undefined;
    return [{ name: "--add-job", value: `${queue}=${group.replicas}x${gpus}`, subject: `job ${namespace}/${name}`, namespace }];
  }
  const { namespace, name, ...fields } = "changeJob" in change ? change.changeJob : change.removeJob;
  if (!NAME.test(namespace) || !NAME.test(name)) return undefined;
  const job = `${namespace}/${name}`;
  const subject = `job ${job}`;
  if ("removeJob" in change) return [{ name: "--remove-job", value: job, subject }];
  const { priority, queue, runtimeSeconds } = fields as { priority?: number; queue?: string; runtimeSeconds?: number };
  if (queue !== undefined && !NAME.test(queue)) return undefined;
  return someOf([
    priority !== undefined && { name: "--priority", value: `${job}=${priority}`, subject },
    runtimeSeconds !== undefined && { name: "--runtime", value: `${job}=${runtimeSeconds}s`, subject },
    queue !== undefined && { name: "--move", value: `${job}=${queue}`, subject },
  ]);
}

function nodeOption(name: string, node: string): readonly Option[] | undefined {
  return NAME.test(node) ? [{ name, value: node, subject: `node ${node}` }] : undefined;
}

function queueOptions(queue: ChangedQueue): readonly Option[] | undefined {
  const { name, quotas = [], priority, weight, stopPolicy } = queue;
  if (!NAME.test(name) || weight !== undefined) return undefined;
  const subject = `queue ${name}`;
  const options: Option[] = [];
  for (const { resource, flavor, nominal, borrowingLimit, lendingLimit } of quotas) {
    if (nominal === undefined || borrowingLimit !== undefined || lendingLimit !== undefined) return undefined;
    if (!RESOURCE.test(resource) || !AMOUNT.test(nominal) || (flavor !== undefined && !NAME.test(flavor))) return undefined;
    const place = flavor === undefined ? resource : `${resource}@${flavor}`;
    options.push({ name: "--quota", value: `${name}:${place}=${nominal}`, subject });
  }
  return someOf([
    ...options,
    priority !== undefined && { name: "--queue-priority", value: `${name}=${priority}`, subject },
    stopPolicy !== undefined && /^[A-Za-z]+$/.test(stopPolicy) && { name: "--stop-queue", value: `${name}=${stopPolicy}`, subject },
  ]);
}

function someOf(options: readonly (Option | false)[]): readonly Option[] | undefined {
  const some = options.filter((option) => option !== false);
  return some.length > 0 ? some : undefined;
}

/** Returns the Forecast object, for `trellis what-if -f` and `kubectl create -f`. */
export function forecastYaml(changes: readonly ForecastChange[]): string {
  const spec = JSON.parse(JSON.stringify({ changes }));
  return writeYaml({ apiVersion: "visibility.trellis.dev/v1alpha1", kind: "Forecast", spec });
}
