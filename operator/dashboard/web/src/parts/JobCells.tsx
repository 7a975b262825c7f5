import { canNeverStart, describeEta, describeReason, phaseOf } from "../app/job/jobs";
import { urls } from "../app/page/route";
import { now } from "../app/server/clock";
import { cutText } from "../app/text/clean";
import { formatCount, jobLabel } from "../app/text/format";
import type { JobState } from "../wire/cluster";
import { PhaseBadge } from "./Badge";
import { Name, Text } from "./Text";
import { Age } from "./Time";

/** Characters of a reason in one row. The page of the job has all of it. */
const REASON_LENGTH = 300;

/** The cells of a job in `JobTable`. On a narrow screen they form a card. */
export function JobCells({ job, href, isGone }: {
  readonly job: JobState;
  readonly href: string;
  readonly isGone: boolean;
}) {
  const eta = describeEta(job, now.value);
  return (
    <>
      <div class="cell cell-position" role="cell">
        {job.position === undefined ? "" : formatCount(job.position)}
      </div>
      <div class="cell cell-job" role="cell">
        <a href={href} data-row>
          <span class="namespace">
            <Name text={job.metadata.namespace ?? ""} />/
          </span>
          <Name text={jobLabel(job.metadata.name)} />
        </a>
      </div>
      <div class="cell cell-user" role="cell">
        {job.user && <Name text={job.user} />}
      </div>
      <div class="cell cell-queue" role="cell">
        <a href={urls.queue(job.queue)}>
          <Name text={job.queue} />
        </a>
      </div>
      <div class="cell cell-priority" role="cell">
        {job.priority}
      </div>
      <div class="cell cell-gpus" role="cell">
        {formatCount(job.gpus)}
      </div>
      <div class="cell cell-pods" role="cell">
        {formatCount(job.pods)}
      </div>
      <div class="cell cell-state" role="cell">
        {isGone ? "left the list" : <PhaseBadge phase={phaseOf(job)} />}
      </div>
      <div class="cell cell-since" role="cell">
        <Age time={job.since} />
      </div>
      <div class={canNeverStart(job) ? "cell cell-eta never" : "cell cell-eta"} role="cell">
        {eta}
      </div>
      <div class="cell cell-reason" role="cell">
        <Text text={cutText(describeReason(job), REASON_LENGTH).text} />
      </div>
    </>
  );
}
