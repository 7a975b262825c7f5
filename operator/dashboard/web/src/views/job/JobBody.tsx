import type { JobRef, JobState } from "../../wire/cluster";
import type { StatusReport, WhyAnswer } from "../../wire/job";
import { Attempts } from "./Attempts";
import { Commands } from "./Commands";
import { Events } from "./Events";
import { GangCard } from "./GangCard";
import { JobFacts } from "./JobFacts";
import { NodeFit } from "./NodeFit";
import { Objects } from "./Objects";
import { Policy } from "./Policy";
import { QueueQuota } from "./QueueQuota";
import { ShortageCard } from "./ShortageCard";
import { Verdict } from "./Verdict";
import { WhatHelps } from "./WhatHelps";
import { Yaml } from "./Yaml";

/** All sections of the page of a job. A section without content is left out. */
export function JobBody(props: {
  readonly job: JobRef;
  readonly status: StatusReport | undefined;
  readonly why: WhyAnswer | undefined;
  readonly row: JobState | undefined;
}) {
  const { job, status, why, row } = props;
  const object = status?.job ?? why?.job;
  const explanation = why?.explanation;
  const events = status?.events ?? why?.events ?? [];
  return (
    <>
      <Verdict why={why} status={status} row={row} />
      <div class="job">
        <div class="job-main">
          {why && <WhatHelps answer={why.answer} />}
          {explanation?.shortage && <ShortageCard shortage={explanation.shortage} />}
          {explanation && <NodeFit explanation={explanation} />}
          {status && <GangCard report={status} />}
          {object && <Attempts job={object} />}
          <Events events={events} unread={status?.unread ?? []} />
        </div>
        <div class="job-side">
          <JobFacts job={object} row={row} />
          {why?.queue && <QueueQuota queue={why.queue} />}
          {object?.status?.policy && <Policy policy={object.status.policy} />}
          {status && <Objects report={status} />}
          <Commands job={job} phase={object?.status?.phase} />
        </div>
      </div>
      {(object ?? why?.podGroup ?? why?.pod) && <Yaml value={object ?? why?.podGroup ?? why?.pod} />}
    </>
  );
}
