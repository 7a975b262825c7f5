import { phaseOf } from "../../app/job/jobs";
import { jobKey, queue } from "../../app/live/store";
import { PhaseBadge } from "../../parts/Badge";
import { Card } from "../../parts/Card";
import { JobLink } from "../../parts/links";

/** The jobs that name a node among their first nodes: all that is known without the right to list nodes. */
export function JobsNamingNode({ name }: { readonly name: string }) {
  const jobs = [...queue.jobs.value.values()].filter((job) => job.nodes?.includes(name));
  if (jobs.length === 0) return null;
  return (
    <Card title="Jobs on this node">
      <p class="card-text dim">A job lists its first 8 nodes by name, so further jobs may be here.</p>
      <ul class="card-text plain-list">
        {jobs.map((job) => (
          <li key={jobKey(job)}>
            <JobLink job={{ namespace: job.metadata.namespace ?? "", name: job.metadata.name }} /> <PhaseBadge phase={phaseOf(job)} />
          </li>
        ))}
      </ul>
    </Card>
  );
}
