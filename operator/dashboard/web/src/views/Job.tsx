import { useComputed } from "@preact/signals";

import { type Polled, usePolled } from "../app/live/poll";
import { describeProblem } from "../app/live/problem-text";
import { jobKey, queue, session } from "../app/live/store";
import { navigate, urls } from "../app/page/route";
import { useTitle } from "../app/page/title";
import { writeManifest } from "../app/plan/manifest";
import { replaceDraft } from "../app/plan/planner";
import { jobLabel } from "../app/text/format";
import { Banner, Loading } from "../parts/Banner";
import { Icon } from "../parts/Icon";
import { Name, Text } from "../parts/Text";
import { Clock } from "../parts/Time";
import type { JobRef } from "../wire/cluster";
import type { StatusReport, TrainingJob, WhyAnswer } from "../wire/job";
import { AttemptsOfGoneJob } from "./job/AttemptsOfGoneJob";
import { JobBody } from "./job/JobBody";

/** Pods and events are in no stream. */
const POLL_MS = 10_000;

/** One job: the sentence first, then all that is behind it. */
export function Job({ job }: { readonly job: JobRef }) {
  const label = jobLabel(job.name);
  // External pods have no TrainingJob, so that only the explanation exists.
  const isExternal = label !== job.name;
  const row = useComputed(() => queue.jobs.value.get(jobKey(job))).value;
  const address = session.value && `/api/jobs/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}`;
  const status = usePolled<StatusReport>(isExternal ? undefined : address, POLL_MS, row);
  const why = usePolled<WhyAnswer>(address && `${address}/why`, POLL_MS, row);
  const word = why.answer?.answer.word || row?.phase || status.answer?.job.status?.phase;
  useTitle(`${job.namespace}/${label}${word ? ` · ${word}` : ""}`);
  const isEmpty = !why.answer && !status.answer;
  const problem = why.problem ?? status.problem;
  const object = status.answer?.job ?? why.answer?.job;
  return (
    <div class="page">
      <div class="page-head">
        <p class="crumbs">
          <a href={urls.jobs()}>Jobs</a>
          <Icon name="right" />
          <a href={urls.jobs({ namespace: job.namespace })}>
            <Name text={job.namespace} />
          </a>
        </p>
        <h1>
          <Name text={label} />
        </h1>
        {object && <PlanChange object={object} />}
      </div>
      {!isEmpty && <OldDataBanner status={status} why={why} />}
      {isEmpty && problem && <NoJob job={job} problem={problem} />}
      {isEmpty && !problem && <Loading rows={8} />}
      {!isEmpty && <JobBody job={job} status={status.answer} why={why.answer} row={row} />}
    </div>
  );
}

/** Opens the plan page with this job. A button, since the text is in no URL. */
function PlanChange({ object }: { readonly object: TrainingJob }) {
  const { name, namespace } = object.metadata;
  return (
    <button
      type="button"
      class="button page-action"
      onClick={() => {
        replaceDraft({ text: writeManifest(object), namespace }, `job ${name}`);
        navigate(urls.plan);
      }}
    >
      <Icon name="plan" />
      Plan a change
    </button>
  );
}

function NoJob({ job, problem }: { readonly job: JobRef; readonly problem: NonNullable<Polled<unknown>["problem"]> }) {
  if (problem.kind === "notFound") {
    return (
      <>
        <div class="page-text">
          <p>
            <Text text={problem.message} max={2_000} />
          </p>
          <p>
            The job may have been deleted, or its name has another spelling. <a href={urls.jobs()}>All jobs</a>
          </p>
        </div>
        <AttemptsOfGoneJob job={job} />
      </>
    );
  }
  const { title, text } = describeProblem(problem);
  return (
    <div class="page-text">
      <h2>{title}</h2>
      <p>
        <Text text={text} max={2_000} />
      </p>
    </div>
  );
}

/** The job is gone, or one of the two answers is old. */
function OldDataBanner({ status, why }: { readonly status: Polled<StatusReport>; readonly why: Polled<WhyAnswer> }) {
  const gone = [status.problem, why.problem].find((problem) => problem?.kind === "notFound");
  if (gone) {
    return (
      <Banner tone="warning" title="This job is gone">
        The cluster has had no job of this name since <Clock time={gone.since.toISOString()} />. The page shows what was
        known last.
      </Banner>
    );
  }
  return (
    <>
      {why.problem && (
        <Banner tone="warning" title={why.answer ? "The explanation is old" : "There is no explanation now"}>
          <Text text={describeProblem(why.problem).text} max={1_000} />
        </Banner>
      )}
      {status.problem && (
        <Banner tone="warning" title={status.answer ? "Pods and objects are old" : "Pods and objects are not known"}>
          <Text text={describeProblem(status.problem).text} max={1_000} />
        </Banner>
      )}
    </>
  );
}
