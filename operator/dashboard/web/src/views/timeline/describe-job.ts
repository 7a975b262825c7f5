/** Describes a row of the timeline in words, for screen readers, the tip and the card. Pure. */

import { describeAttempt } from "../../app/job/ended-attempts";
import { describeEta, isPending, phaseOf } from "../../app/job/jobs";
import { countOf, formatAge } from "../../app/text/format";
import { gangOfKey, gangTitle } from "../../draw/base/gang";
import type { JobRow } from "../../draw/timeline/rows";
import type { EndedAttempt } from "../../wire/attempt";
import type { JobState } from "../../wire/cluster";

/** Ended attempts of one row that are described. */
const MAX_DESCRIBED = 3;

/** Returns one text for a row: the job as it is, then its ended attempts, the newest first. */
export function describeRow(row: JobRow, now: Date): string {
  const { job } = row;
  const head = job === undefined ? `${gangTitle(gangOfKey(row.key))}, queue ${row.past.at(-1)?.queue ?? ""}: neither pending nor placed.` : describeJob(job, now);
  const lines = shownAttempts(row.past).map((ended) => `${capital(describeAttempt(ended, now))}.`);
  const more = row.past.length - lines.length;
  return [head, ...lines, ...(more > 0 ? [`${countOf(more, "earlier attempt")}.`] : [])].join(" ");
}

/** Returns the attempts that are described, the newest first. */
export function shownAttempts(past: readonly EndedAttempt[]): readonly EndedAttempt[] {
  return past.slice(-MAX_DESCRIBED).reverse();
}

function describeJob(job: JobState, now: Date): string {
  const name = gangTitle({ namespace: job.metadata.namespace ?? "", name: job.metadata.name });
  const place = job.position === undefined ? "" : `, number ${job.position} of its queue`;
  return `${name}, queue ${job.queue}: ${phaseOf(job)} for ${formatAge(job.since, now)}, ${countOf(job.gpus, "GPU")}${place}, ${foreseen(job, now)}.`;
}

/** Returns the expected start or end in words, also if it is unknown. */
export function foreseen(job: JobState, now: Date): string {
  return describeEta(job, now) ?? (isPending(job) ? "no known start" : "no known end");
}

/** Returns a text that begins with a capital letter. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
