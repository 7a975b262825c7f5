/** Changes as sentences. Pure. */

import type { AddedJob, ChangedJob, ChangedQueue, ChangedQuota, ForecastChange } from "../../wire/forecast";
import { countOf, formatAmount, formatSeconds, jobLabel, resourceLabel } from "../text/format";
import type { ChangeKind } from "./changes";

/** Names of the kinds in the menu. */
export const KIND_LABELS: Readonly<Record<ChangeKind, string>> = {
  addNodes: "Add nodes",
  removeNode: "Remove a node",
  cordonNode: "Cordon a node",
  restoreNode: "Restore a node",
  changeQueue: "Change a queue",
  addJob: "Add jobs",
  changeJob: "Change a job",
  removeJob: "Remove a job",
};

/** Describes a change, such as `Add 4 nodes like gpu-0`. */
export function describeChange(change: ForecastChange): string {
  if ("addNodes" in change) {
    const { like, count, labels } = change.addNodes;
    const pairs = Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`);
    return `Add ${countOf(count, "node")} like ${like}${pairs.length > 0 ? ` with ${pairs.join(", ")}` : ""}`;
  }
  if ("removeNode" in change) return `Remove node ${change.removeNode.name}`;
  if ("cordonNode" in change) return `Cordon node ${change.cordonNode.name}: its pods stay`;
  if ("restoreNode" in change) return `Make node ${change.restoreNode.name} usable`;
  if ("changeQueue" in change) return describeQueue(change.changeQueue);
  if ("addJob" in change) return describeAddedJob(change.addJob);
  if ("changeJob" in change) return describeJob(change.changeJob);
  return `Remove job ${change.removeJob.namespace}/${jobLabel(change.removeJob.name)}`;
}

function describeQueue(queue: ChangedQueue): string {
  const parts = (queue.quotas ?? []).flatMap(describeQuota);
  if (queue.priority !== undefined) parts.push(`priority ${queue.priority}`);
  if (queue.weight !== undefined) parts.push(`weight ${queue.weight}`);
  const stop = queue.stopPolicy === undefined ? undefined : describeStop(queue.stopPolicy);
  if (stop !== undefined && parts.length === 0) return `${stop} queue ${queue.name}`;
  const sum = parts.length > 0 ? `Give queue ${queue.name} ${parts.join(", ")}` : `Change nothing of queue ${queue.name}`;
  return stop === undefined ? sum : `${sum}, and ${stop.toLowerCase()} it`;
}

function describeStop(policy: string): string {
  if (policy === "None") return "Open";
  return policy === "HoldAndDrain" ? "Stop and drain" : "Stop";
}

function describeQuota(quota: ChangedQuota): string[] {
  const resource = resourceLabel(quota.resource, quota.flavor ?? "");
  const parts = [
    ["a quota of", quota.nominal],
    ["a borrowing limit of", quota.borrowingLimit],
    ["a lending limit of", quota.lendingLimit],
  ] as const;
  return parts.flatMap(([words, amount]) => (amount === undefined ? [] : [`${words} ${formatAmount(quota.resource, amount)} ${resource}`]));
}

function describeAddedJob(job: AddedJob): string {
  const count = job.count ?? 1;
  const parts = [`Add ${count === 1 ? "job" : `${countOf(count, "job")} named`} ${job.namespace}/${job.name}`];
  if (job.like) parts.push(`like ${job.like.namespace}/${jobLabel(job.like.name)}`);
  const groups = (job.groups ?? []).map((group) => {
    const requests = Object.entries(group.requests).map(([resource, amount]) => `${formatAmount(resource, amount)} ${resource}`);
    return `${countOf(group.replicas, "pod")}${requests.length > 0 ? ` with ${requests.join(", ")} each` : ""}`;
  });
  if (groups.length > 0) parts.push(`of ${groups.join(" and ")}`);
  if (job.queue !== undefined) parts.push(`to queue ${job.queue}`);
  if (job.priority !== undefined) parts.push(`with priority ${job.priority}`);
  if (job.runtimeSeconds !== undefined) parts.push(`for ${formatSeconds(job.runtimeSeconds)}`);
  return parts.join(" ");
}

function describeJob(job: ChangedJob): string {
  const name = `${job.namespace}/${jobLabel(job.name)}`;
  const parts: string[] = [];
  if (job.priority !== undefined) parts.push(`give it priority ${job.priority}`);
  if (job.queue !== undefined) parts.push(`move it to queue ${job.queue}`);
  if (job.runtimeSeconds !== undefined) parts.push(`let it run for ${formatSeconds(job.runtimeSeconds)}`);
  return `Change job ${name}: ${parts.join(", ") || "nothing"}`;
}
