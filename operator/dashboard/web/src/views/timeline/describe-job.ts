/** Describes a job of the timeline in words, for screen readers and for the tip. Pure. */

import { describeEta, isPending, phaseOf } from "../../app/job/jobs";
import { countOf, formatAge } from "../../app/text/format";
import { gangTitle } from "../../draw/base/gang";
import type { JobState } from "../../wire/cluster";

/** Returns one text for a job. */
export function describeJob(job: JobState, now: Date): string {
  const name = gangTitle({ namespace: job.metadata.namespace ?? "", name: job.metadata.name });
  const place = job.position === undefined ? "" : `, number ${job.position} of its queue`;
  return `${name}, queue ${job.queue}: ${phaseOf(job)} for ${formatAge(job.since, now)}, ${countOf(job.gpus, "GPU")}${place}, ${foreseen(job, now)}.`;
}

/** Returns the expected start or end in words, also if it is unknown. */
export function foreseen(job: JobState, now: Date): string {
  return describeEta(job, now) ?? (isPending(job) ? "no known start" : "no known end");
}
