import { useComputed } from "@preact/signals";

import { describeReason } from "../../app/job/jobs";
import { jobKey, queue as store } from "../../app/live/store";
import { urls } from "../../app/page/route";
import { jobsOfQueues } from "../../app/queue/queue-tree";
import { cutText } from "../../app/text/clean";
import { countOf, formatCount } from "../../app/text/format";
import { Name, Text } from "../../parts/Text";
import { Age } from "../../parts/Time";
import { JobLink } from "../../parts/links";
import type { JobState } from "../../wire/cluster";
import { Eta } from "../home/Eta";

const MAX_JOBS = 8;

/** Who holds the quota of a queue, the largest first, and who waits, by position. */
export function QueueJobLists({ names, queue }: { readonly names: ReadonlySet<string>; readonly queue: string }) {
  const jobs = useComputed(() => jobsOfQueues(store.jobs.value.values(), names));
  const { holders, waiters } = jobs.value;
  return (
    <div class="queue-lists">
      <JobList title="Hold it" jobs={holders} more={urls.jobs({ q: queue, state: "running" })} isWaiting={false} />
      <JobList title="Wait" jobs={waiters} more={urls.jobs({ q: queue, state: "waiting" })} isWaiting />
    </div>
  );
}

function JobList(props: {
  readonly title: string;
  readonly jobs: readonly JobState[];
  readonly more: string;
  readonly isWaiting: boolean;
}) {
  const { jobs, isWaiting } = props;
  const gpus = jobs.reduce((sum, job) => sum + job.gpus, 0);
  return (
    <section>
      <h3>
        {props.title} <span class="dim">{`${countOf(jobs.length, "job")}, ${countOf(gpus, "GPU")}`}</span>
      </h3>
      {jobs.length === 0 && <p class="dim">None.</p>}
      <ol class="short-jobs">
        {jobs.slice(0, MAX_JOBS).map((job) => (
          <li key={jobKey(job)}>
            <span class="short-jobs-count">{isWaiting ? (job.position ?? "–") : formatCount(job.gpus)}</span>
            <span class="short-jobs-name">
              <JobLink job={{ namespace: job.metadata.namespace ?? "", name: job.metadata.name }} />
              {job.user && (
                <span class="dim">
                  {" "}
                  <Name text={job.user} />
                </span>
              )}
              {isWaiting && (
                <span class="short-jobs-reason">
                  <Text text={cutText(describeReason(job), 160).text} />
                </span>
              )}
            </span>
            <span class="short-jobs-time">
              {isWaiting ? `${countOf(job.gpus, "GPU")}, ` : ""}
              <Age time={job.since} />
              <br />
              <Eta job={job} />
            </span>
          </li>
        ))}
      </ol>
      {jobs.length > MAX_JOBS && (
        <p>
          <a href={props.more}>{formatCount(jobs.length - MAX_JOBS)} more</a>
        </p>
      )}
    </section>
  );
}
