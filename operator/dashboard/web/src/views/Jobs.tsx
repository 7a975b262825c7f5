import { useComputed } from "@preact/signals";

import { type JobFilter, type JobOrder, filterJobs, readFilter, readOrder, writeOrder } from "../app/job/jobs";
import { queueFreshness } from "../app/live/freshness";
import { queue, scope, session } from "../app/live/store";
import { useNamespaceScope } from "../app/page/namespace-scope";
import { query, search, setQuery } from "../app/page/route";
import { useTitle } from "../app/page/title";
import { summarizeJobs } from "../app/queue/summary";
import { countOf, formatCount } from "../app/text/format";
import { Empty, Loading } from "../parts/Banner";
import { JobTable } from "../parts/JobTable";
import { ProblemText } from "../parts/ListProblem";
import { Name } from "../parts/Text";
import type { JobState } from "../wire/cluster";
import { LatePage } from "./LatePage";
import { JobFilters } from "./jobs/JobFilters";

/** All jobs, as `trellis queue` lists them: as a table or on a timeline. */
export function Jobs({ isTimeline }: { readonly isTimeline: boolean }) {
  const title = isTimeline ? "Timeline" : "Jobs";
  useTitle(title);
  useNamespaceScope();
  const filter = useComputed(() => readFilter(query.value));
  const jobs = useComputed(() => filterJobs(queue.jobs.value.values(), filter.value));
  const freshness = queueFreshness.value;
  return (
    <div class="page">
      <div class="page-head">
        <h1>
          {title}
          <Scope />
        </h1>
        {freshness.state !== "failed" && <Counts jobs={jobs.value} />}
      </div>
      <JobFilters filter={filter.value} isTimeline={isTimeline} />
      {freshness.state === "failed" ? (
        // The filters stay: another namespace may be one that the user may list.
        <ProblemText problem={freshness.problem} />
      ) : freshness.state === "loading" ? (
        <Loading rows={12} />
      ) : isTimeline ? (
        <LatePage
          show={({ TimelineView }) => (
            <TimelineView jobs={jobs.value} filter={filter.value} empty={<NoJobs filter={filter.value} />} />
          )}
        />
      ) : jobs.value.length === 0 ? (
        <NoJobs filter={filter.value} />
      ) : (
        <JobList jobs={jobs.value} />
      )}
    </div>
  );
}

function JobList({ jobs }: { readonly jobs: readonly JobState[] }) {
  const order = readOrder(query.value.get("sort"));
  const onOrder = (next: JobOrder): void => setQuery({ sort: writeOrder(next) }, { step: true });
  return <JobTable jobs={jobs} order={order} onOrder={onOrder} selection={search.value} />;
}

/** Without the right to all namespaces, the title names the one that is shown. */
function Scope() {
  if (scope.value === undefined || session.value?.may.allJobs) return null;
  return (
    <>
      {" "}
      of <Name text={scope.value} />
    </>
  );
}

function Counts({ jobs }: { readonly jobs: readonly JobState[] }) {
  const all = queue.jobs.value.size;
  const { running, waiting, heldGpus, waitingGpus } = summarizeJobs(jobs);
  return (
    <p class="counts">
      {jobs.length < all && <span>{`${formatCount(jobs.length)} of ${countOf(all, "job")}`}</span>}
      <span>{`${formatCount(running)} placed, hold ${countOf(heldGpus, "GPU")}`}</span>
      <span>{`${formatCount(waiting)} pending, want ${countOf(waitingGpus, "GPU")}`}</span>
    </p>
  );
}

function NoJobs({ filter }: { readonly filter: JobFilter }) {
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  if (!isFiltered) {
    return (
      <Empty icon="check" title="No job is pending or placed.">
        <p class="dim">Jobs that have ended, and jobs in the phases Waiting, Refused and Blocked, are not listed here: kubectl get trainingjobs -A</p>
      </Empty>
    );
  }
  const clear = { q: undefined, state: undefined, namespace: undefined, user: undefined, text: undefined };
  return (
    <Empty title="No job matches the filters.">
      <button type="button" class="button" onClick={() => setQuery(clear, { step: true })}>
        Clear the filters
      </button>
    </Empty>
  );
}
