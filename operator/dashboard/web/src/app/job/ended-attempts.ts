/** Selects and describes ended attempts, in the words of `trellis history`. Pure. */

import type { EndedAttempt } from "../../wire/attempt";
import type { JobRef, Time } from "../../wire/cluster";
import type { LastFailure, TrainingJobStatus } from "../../wire/job";
import type { IconName } from "../look/icons";
import type { Tone } from "../look/phases";
import { cleanLine, cutText } from "../text/clean";
import { formatAge } from "../text/format";
import type { JobFilter } from "./jobs";

/** How an attempt ended. `other`: the job waits or starts again, without a failure or a preemption. */
export type EndKind = "complete" | "failed" | "preempted" | "suspended" | "deleted" | "other";

/** Returns how an attempt ended. The rules are those of `trellis history`. */
export function endKind(ended: EndedAttempt): EndKind {
  if (ended.preempted) return "preempted";
  if (ended.phase === "Complete") return "complete";
  if (ended.phase === "Failed") return "failed";
  if (ended.phase === "Suspended") return "suspended";
  if (ended.failure) return "failed";
  return ended.phase === undefined ? "deleted" : "other";
}

const WORDS: Readonly<Record<Exclude<EndKind, "other">, string>> = {
  complete: "Complete",
  failed: "Failed",
  preempted: "Preempted",
  suspended: "Suspended",
  deleted: "Deleted",
};

/** Returns how an attempt ended, in one word. */
export function endWord(ended: EndedAttempt): string {
  const kind = endKind(ended);
  return kind === "other" ? (ended.reason ?? "Ended") : WORDS[kind];
}

/** Tone and icon of an end. Two ends with one tone have different icons. */
export const END_LOOKS: Readonly<Record<EndKind, { readonly tone: Tone; readonly icon: IconName }>> = {
  complete: { tone: "good", icon: "check" },
  failed: { tone: "bad", icon: "cross" },
  preempted: { tone: "waiting", icon: "swap" },
  suspended: { tone: "still", icon: "pause" },
  deleted: { tone: "still", icon: "minus" },
  other: { tone: "starting", icon: "restart" },
};

/** Characters of a last line or message in one sentence. */
const BRIEF = 160;

/** Returns the cause of the end on one line. Empty: unknown. */
export function describeCause(ended: EndedAttempt): string {
  const text = ended.failure ? describeFailure(ended.failure) : (ended.message ?? "");
  const cut = cutText(cleanLine(text), BRIEF);
  return cut.isCut ? `${cut.text}…` : cut.text;
}

function describeFailure({ pod, reason, exitCode, lastLine }: LastFailure): string {
  const code = exitCode === undefined ? "" : `, exit code ${exitCode}`;
  return `${pod} ${reason}${code}${lastLine ? `: ${lastLine}` : ""}`;
}

/** Describes an attempt in one sentence without a full stop: number, end, time on its nodes, cause. */
export function describeAttempt(ended: EndedAttempt, now: Date): string {
  const cause = describeCause(ended);
  const held = formatAge(ended.placed, new Date(ended.ended));
  const head = `attempt ${ended.attempt}: ${endWord(ended)} ${formatAge(ended.ended, now)} ago after ${held}`;
  return cause === "" ? head : `${head}, ${cause.replace(/[.\s]+$/, "")}`;
}

/** Returns the time of the last checkpoint within an attempt: that of the job may be of an attempt before. */
export function checkpointOf(ended: EndedAttempt): Time | undefined {
  const at = Date.parse(ended.checkpoint ?? "");
  return at >= Date.parse(ended.placed) && at <= Date.parse(ended.ended) ? ended.checkpoint : undefined;
}

/** Returns the last failure and preemption of a job that its list of attempts does not show. */
export function endsBesides(status: TrainingJobStatus, listed: readonly EndedAttempt[]): Pick<TrainingJobStatus, "lastFailure" | "lastPreemption"> {
  const { lastFailure, lastPreemption } = status;
  const hasFailure = listed.some((ended) => ended.failure !== undefined && ended.attempt === lastFailure?.attempt);
  const hasPreemption = listed.some((ended) => ended.preempted && ended.attempt === lastPreemption?.attempt);
  return {
    ...(lastFailure !== undefined && !hasFailure && { lastFailure }),
    ...(lastPreemption !== undefined && !hasPreemption && { lastPreemption }),
  };
}

/** Returns the key of the job of an attempt: `namespace/name`. */
export function jobKeyOf(ended: EndedAttempt): string {
  return `${ended.metadata.namespace ?? ""}/${ended.job}`;
}

/** Returns the attempts of a job, the newest first. With a uid, those of an older job of the name are left out. */
export function attemptsOfJob(attempts: readonly EndedAttempt[], job: JobRef, uid: string | undefined): EndedAttempt[] {
  const key = `${job.namespace}/${job.name}`;
  return attempts.filter((own) => jobKeyOf(own) === key && (uid === undefined || own.uid === uid)).reverse();
}

/** Returns the attempts of each job, by `namespace/name`. Those of a job are in the order of their ends. */
export function groupByJob(attempts: readonly EndedAttempt[]): ReadonlyMap<string, readonly EndedAttempt[]> {
  const groups = new Map<string, EndedAttempt[]>();
  for (const ended of attempts) {
    const key = jobKeyOf(ended);
    const group = groups.get(key);
    if (group) group.push(ended);
    else groups.set(key, [ended]);
  }
  return groups;
}

/** True if the filter of jobs selects an attempt of a job that is neither pending nor placed now. */
export function matchesEnded(ended: EndedAttempt, filter: JobFilter): boolean {
  if (filter.queue !== undefined && ended.queue !== filter.queue) return false;
  if (filter.namespace !== undefined && ended.metadata.namespace !== filter.namespace) return false;
  if (filter.user !== undefined && ended.user !== filter.user) return false;
  if (filter.state !== undefined && ended.phase !== filter.state) return false;
  const words = (filter.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const text = [jobKeyOf(ended), ended.user, ended.queue, ended.reason, ended.message?.slice(0, 400)].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}
