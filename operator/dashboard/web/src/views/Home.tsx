import { useComputed } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { queueFreshness } from "../app/live/freshness";
import { follow, jobKey, queue, scope, session } from "../app/live/store";
import { useNamespaceScope } from "../app/page/namespace-scope";
import { urls } from "../app/page/route";
import { useTitle } from "../app/page/title";
import { headsOfQueues, ownJobs, summarizeJobs } from "../app/queue/summary";
import { Empty, Loading } from "../parts/Banner";
import { Card } from "../parts/Card";
import { Command } from "../parts/Copy";
import { ListProblem } from "../parts/ListProblem";
import { Table } from "../parts/Table";
import { Name } from "../parts/Text";
import { Age } from "../parts/Time";
import { JobLink, QueueLink } from "../parts/links";
import type { JobState } from "../wire/cluster";
import { Changes } from "./home/Changes";
import { Eta } from "./home/Eta";
import { JobLine } from "./home/JobLine";
import { OnCall } from "./home/OnCall";
import { QueueBars } from "./home/QueueBars";
import { Tiles } from "./home/Tiles";

/** Own jobs of each kind that the page lists. The list of jobs has all of them. */
const MAX_OWN = 6;
const MAX_HEADS = 8;

/** The user's jobs first: what runs, what waits and why. Then the cluster in short. */
export function Home() {
  useTitle("Home");
  useNamespaceScope();
  const mayNodes = session.value?.may.nodes ?? false;
  useEffect(() => (mayNodes ? follow("nodes") : undefined), [mayNodes]);
  const summary = useComputed(() => summarizeJobs(queue.jobs.value.values()));
  const heads = useComputed(() => headsOfQueues(queue.jobs.value.values()));
  const freshness = queueFreshness.value;
  if (freshness.state === "failed") return <ListProblem title="Home" problem={freshness.problem} />;
  const isLoading = freshness.state === "loading";
  return (
    <div class="page">
      <h1 class="hidden">Home</h1>
      <OneNamespace />
      {!isLoading && session.value?.may.allJobs && <OnCall />}
      <Tiles summary={summary.value} isLoading={isLoading} />
      <div class="home">
        <div class="home-main">
          <OwnJobs isLoading={isLoading} />
          <Card title="First in each queue" aside={<a href={urls.jobs({ state: "waiting" })}>All that wait</a>}>
            {isLoading ? (
              <Loading />
            ) : heads.value.length === 0 ? (
              <Empty icon="check" title="Nothing waits." />
            ) : (
              <Heads jobs={heads.value.slice(0, MAX_HEADS)} />
            )}
          </Card>
        </div>
        <div class="home-side">
          <Changes />
          <QueueBars />
        </div>
      </div>
    </div>
  );
}

/** A user without the right to all namespaces must know which one the numbers are of. */
function OneNamespace() {
  if (scope.value === undefined || session.value?.may.allJobs !== false) return null;
  return (
    <p class="home-scope">
      Jobs of namespace <Name text={scope.value} />: you may not list those of all namespaces.{" "}
      <a href={urls.jobs()}>Choose another</a>
    </p>
  );
}

function OwnJobs({ isLoading }: { readonly isLoading: boolean }) {
  const user = session.value?.user;
  const { waiting, placed } = ownJobs(queue.jobs.value.values(), user ?? "");
  const isEmpty = waiting.length + placed.length === 0;
  const link = user !== undefined && !isEmpty && <a href={urls.jobs({ user })}>All of mine</a>;
  return (
    <Card title="My jobs" aside={link}>
      {isLoading && <Loading />}
      {!isLoading && isEmpty && (
        <Empty title="No job of yours waits or runs.">
          <p class="dim">Submit one from a file, or look at what ended:</p>
          <Command label="Submit" text="trellis submit -f job.yaml" />
          <Command label="All jobs" text="kubectl get trainingjobs" />
        </Empty>
      )}
      <JobLines title="Wait" jobs={waiting} more={urls.jobs({ user, state: "waiting" })} />
      <JobLines title="Placed" jobs={placed} more={urls.jobs({ user, state: "running" })} />
    </Card>
  );
}

function JobLines(props: {
  readonly title: string;
  readonly jobs: readonly JobState[];
  readonly more: string;
}) {
  const { title, jobs, more } = props;
  if (jobs.length === 0) return null;
  return (
    <section>
      <h3 class="job-lines-title">
        {title} <span class="dim">{jobs.length}</span>
      </h3>
      <ul>
        {jobs.slice(0, MAX_OWN).map((job) => (
          <JobLine key={jobKey(job)} job={job} />
        ))}
      </ul>
      {jobs.length > MAX_OWN && (
        <p class="card-foot">
          <a href={more}>{jobs.length - MAX_OWN} more</a>
        </p>
      )}
    </section>
  );
}

function Heads({ jobs }: { readonly jobs: readonly JobState[] }) {
  return (
    <Table
      caption="The first pending job of each queue"
      rows={jobs}
      keyOf={jobKey}
      columns={[
        { title: "Queue", cell: (job) => <QueueLink name={job.queue} /> },
        {
          title: "Job",
          isWide: true,
          cell: (job) => <JobLink job={{ namespace: job.metadata.namespace ?? "", name: job.metadata.name }} />,
        },
        { title: "GPUs", isNumber: true, cell: (job) => job.gpus },
        { title: "Waits for", cell: (job) => <Age time={job.since} /> },
        { title: "Expected", cell: (job) => <Eta job={job} /> },
      ]}
    />
  );
}
