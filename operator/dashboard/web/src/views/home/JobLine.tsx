import { describeReason, isPending, phaseOf } from "../../app/job/jobs";
import { urls } from "../../app/page/route";
import { countOf } from "../../app/text/format";
import { jobLabel } from "../../app/text/format";
import { PhaseBadge } from "../../parts/Badge";
import { Name, Text } from "../../parts/Text";
import { Age } from "../../parts/Time";
import { QueueLink } from "../../parts/links";
import type { JobState } from "../../wire/cluster";
import { Eta } from "./Eta";

/** A job in two lines: what it is, and why it waits or how it runs. */
export function JobLine({ job }: { readonly job: JobState }) {
  const { namespace = "", name } = job.metadata;
  const reason = describeReason(job);
  return (
    <li class="job-line">
      <PhaseBadge phase={phaseOf(job)} />
      <div class="job-line-text">
        <div class="job-line-head">
          <a href={urls.job({ namespace, name })} data-row>
            <span class="namespace">
              <Name text={namespace} />/
            </span>
            <Name text={jobLabel(name)} />
          </a>
          <span class="dim">
            {job.gpus > 0 ? countOf(job.gpus, "GPU") : countOf(job.pods, "pod")} for <Age time={job.since} />
          </span>
        </div>
        {reason && (
          <p class="job-line-reason">
            <Text text={reason} max={320} />
          </p>
        )}
        <p class="dim">
          {isPending(job) ? <Place job={job} /> : <Where job={job} />}
        </p>
      </div>
      <div class="job-line-eta">
        <Eta job={job} />
      </div>
    </li>
  );
}

function Place({ job }: { readonly job: JobState }) {
  return job.position === undefined ? (
    <>
      in queue <QueueLink name={job.queue} />, waits for preempted jobs to stop
    </>
  ) : (
    <>
      number {job.position} of queue <QueueLink name={job.queue} />, priority {job.priority}
    </>
  );
}

function Where({ job }: { readonly job: JobState }) {
  return (
    <>
      {job.nodeCount !== undefined && <>on {countOf(job.nodeCount, "node")}, </>}
      queue <QueueLink name={job.queue} />, priority {job.priority}
    </>
  );
}
