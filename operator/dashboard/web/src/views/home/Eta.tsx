import { now } from "../../app/clock";
import { canNeverStart, describeEta } from "../../app/jobs";
import type { JobState } from "../../wire";

/** The expected start or end of a job. */
export function Eta({ job }: { readonly job: JobState }) {
  const eta = describeEta(job, now.value);
  if (eta === undefined) return <span class="dim">unknown</span>;
  return <span class={canNeverStart(job) ? "never" : undefined}>{eta}</span>;
}
