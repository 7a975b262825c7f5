import { canNeverStart, describeEta } from "../../app/job/jobs";
import { now } from "../../app/server/clock";
import type { JobState } from "../../wire/cluster";

/** The expected start or end of a job. */
export function Eta({ job }: { readonly job: JobState }) {
  const eta = describeEta(job, now.value);
  if (eta === undefined) return <span class="dim">unknown</span>;
  return <span class={canNeverStart(job) ? "never" : undefined}>{eta}</span>;
}
