/** Finds what has happened to jobs between two lists. Pure. */

import type { JobState } from "../../wire/cluster";

/** Something that has happened to a job. */
export interface JobChange {
  readonly key: string;
  readonly time: Date;
  readonly what: "submitted" | "started" | "phase" | "left" | "first";
  /** The job after the change; after it has left, the job before. */
  readonly job: JobState;
  readonly before?: JobState;
}

/** Changes that the page keeps. */
const MAX_CHANGES = 100;

/** Returns the newest changes. */
export function keepRecent(changes: readonly JobChange[]): readonly JobChange[] {
  return changes.slice(0, MAX_CHANGES);
}

/** Returns the changes of the jobs with these keys. */
export function diffJobs(
  before: ReadonlyMap<string, JobState>,
  after: ReadonlyMap<string, JobState>,
  keys: Iterable<string>,
  time: Date,
): JobChange[] {
  const found: JobChange[] = [];
  for (const key of new Set(keys)) {
    const change = diffJob(before.get(key), after.get(key));
    if (change) found.push({ ...change, key, time });
  }
  return found;
}

function diffJob(
  before: JobState | undefined,
  after: JobState | undefined,
): Pick<JobChange, "what" | "job" | "before"> | undefined {
  if (!after) return before && { what: "left", job: before };
  if (!before) return { what: "submitted", job: after };
  if (before.metadata.uid !== after.metadata.uid) return { what: "submitted", job: after };
  if (before.phase !== after.phase) {
    return { what: after.phase === "Running" ? "started" : "phase", job: after, before };
  }
  // One start moves every job behind it. Only the first place is news.
  return after.position === 1 && before.position !== 1 ? { what: "first", job: after, before } : undefined;
}
