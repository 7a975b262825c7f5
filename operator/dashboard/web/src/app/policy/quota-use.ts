/** Limits of quota policies in words and as bars. Pure. */

import type { LabelSelector, QuotaHolder, QuotaLimits, QuotaPolicy, QuotaUse } from "../../wire/policy";
import { formatAmount, formatSeconds, parseQuantity } from "../text/format";

/** A bar: one limit of one holder. */
export interface UseBar {
  readonly label: string;
  readonly used: string;
  readonly max: string;
  /** Part of the limit that is in use, in percent of the bar. */
  readonly percent: number;
  readonly isFull: boolean;
}

const LABELS: Readonly<Record<string, string>> = {
  runningJobs: "running jobs",
  queuedJobs: "pending jobs",
  gpuHours: "GPU-hours",
};

/** Reads the bar of a limit. */
export function readUseBar(use: QuotaUse, limits: QuotaLimits): UseBar {
  const used = parseQuantity(use.used) ?? 0;
  const max = parseQuantity(use.max) ?? 0;
  const resource = use.limit.slice(flavorEnd(use.limit));
  const hours = use.limit === "gpuHours" ? limits.gpuHours?.windowHours : undefined;
  const label = LABELS[use.limit] ?? limitLabel(use.limit);
  return {
    label: hours === undefined ? label : `${label} in the last ${formatSeconds(hours * 3_600)}`,
    used: formatAmount(resource, use.used),
    max: formatAmount(resource, use.max),
    percent: max > 0 ? Math.min(100, Math.max(0, (used / max) * 100)) : 100,
    isFull: used >= max,
  };
}

/**
 * Returns where the resource begins in the name of a limit. A flavor has no slash and no dot, and
 * the domain of a resource has a dot: `a100/nvidia.com/gpu`, `nvidia.com/gpu`, `a100/cpu`.
 */
function flavorEnd(limit: string): number {
  const slash = limit.indexOf("/");
  if (slash < 0 || limit.slice(0, slash).includes(".")) return 0;
  return slash + 1;
}

function limitLabel(limit: string): string {
  const end = flavorEnd(limit);
  return end === 0 ? limit : `${limit.slice(end)} (${limit.slice(0, end - 1)})`;
}

/** Who holds a limit, in words. A name of a user is text of the cluster. */
export function holderLabel(holder: QuotaHolder): string {
  if (holder.requester === undefined) return "all together";
  return holder.requester === "" ? "unknown users" : holder.requester;
}

/** The jobs that a quota policy limits, one text for each condition. */
export function subjectTexts({ subject }: QuotaPolicy): string[] {
  const texts = [
    subject.team !== undefined && `team ${subject.team}`,
    subject.queueName !== undefined && `queue ${subject.queueName} and the queues below it`,
    subject.requester !== undefined && `user ${subject.requester}, and unknown users`,
    subject.serviceAccountName !== undefined && `ServiceAccount ${subject.serviceAccountName}`,
    subject.namespaceSelector !== undefined && selectorText(subject.namespaceSelector),
  ].filter((text) => text !== false);
  return texts.length > 0 ? texts : ["every job"];
}

/** The limits on one job, which have no usage. */
export function perJobTexts(limits: QuotaLimits): string[] {
  return [
    limits.podsPerJob !== undefined && `at most ${limits.podsPerJob} pods`,
    limits.gpusPerJob !== undefined && `at most ${limits.gpusPerJob} GPUs`,
    limits.runtimeSecondsPerJob !== undefined && `at most ${formatSeconds(limits.runtimeSecondsPerJob)} of running time`,
  ].filter((text) => text !== false);
}

/** A label selector in words. Without conditions it selects everything. */
export function selectorText(selector: LabelSelector | undefined): string {
  const labels = Object.entries(selector?.matchLabels ?? {}).map(([key, value]) => `${key}=${value}`);
  const expressions = (selector?.matchExpressions ?? []).map(({ key, operator, values = [] }) =>
    values.length > 0 ? `${key} ${operator} (${values.join(", ")})` : `${key} ${operator}`,
  );
  const all = [...labels, ...expressions];
  return all.length > 0 ? `namespaces with ${all.join(", ")}` : "all namespaces";
}
