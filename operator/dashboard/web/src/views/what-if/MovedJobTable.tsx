import { jobKey } from "../../app/live/store";
import { formatCount } from "../../app/text/format";
import { describeDifference, describeEnd, describeStart, effectLook } from "../../app/what-if/moved-jobs";
import { Badge } from "../../parts/Badge";
import { type Column, Table } from "../../parts/Table";
import { Name } from "../../parts/Text";
import { JobLink, QueueLink } from "../../parts/links";
import type { ForecastEffect, MovedJob } from "../../wire/forecast";

/** The jobs that the changes move, the farthest first. */
export function MovedJobTable({ jobs, time }: { readonly jobs: readonly MovedJob[]; readonly time: Date }) {
  const columns: readonly Column<MovedJob>[] = [
    { title: "Job", cell: (job) => <MovedJobName job={job} /> },
    { title: "Queue", cell: (job) => <QueueLink name={job.queue} /> },
    { title: "GPUs", cell: (job) => formatCount(job.gpus), isNumber: true },
    { title: "Effect", cell: (job) => <EffectBadge effect={job.effect} /> },
    { title: "Start before", cell: (job) => describeStart(job.before, time) },
    { title: "Start after", cell: (job) => describeStart(job.after, time) },
    { title: "Difference", cell: describeDifference },
    { title: "End before", cell: (job) => describeEnd(job.before, time) },
    { title: "End after", cell: (job) => describeEnd(job.after, time) },
  ];
  return <Table caption="Jobs that the changes move" columns={columns} rows={jobs} keyOf={jobKey} />;
}

/** A job that the changes add has no page. */
export function MovedJobName({ job }: { readonly job: MovedJob }) {
  return job.before ? <JobLink job={job} /> : <Name text={`${job.namespace}/${job.name}`} />;
}

function EffectBadge({ effect }: { readonly effect: ForecastEffect }) {
  const { tone, icon, word } = effectLook(effect);
  return (
    <Badge tone={tone} icon={icon}>
      <Name text={word} />
    </Badge>
  );
}
