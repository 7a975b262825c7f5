import { describeRuntime } from "../../app/job/attempts";
import { now } from "../../app/server/clock";
import { countOf } from "../../app/text/format";
import { Card, Facts } from "../../parts/Card";
import { Name, Text } from "../../parts/Text";
import { Ago, Until } from "../../parts/Time";
import { NodeLinks, QueueLink } from "../../parts/links";
import type { JobState } from "../../wire/cluster";
import type { TrainingJob } from "../../wire/job";

const DEFAULT_RESTARTS = 3;
const DEFAULT_DISRUPTIONS = 100;

/** Facts of the job on one side of the page. */
export function JobFacts({ job, row }: { readonly job: TrainingJob | undefined; readonly row: JobState | undefined }) {
  const status = job?.status;
  const spec = job?.spec;
  const queue = status?.queue ?? spec?.queueName ?? row?.queue;
  const user = status?.policy?.requester ?? row?.user;
  const submitted = job?.metadata.creationTimestamp ?? row?.submitted;
  const runtime = job ? describeRuntime(job, now.value) : "";
  const restart = spec?.restart;
  return (
    <Card title="Facts">
      <Facts
        facts={[
          queue !== undefined && { term: "Queue", value: <QueueLink name={queue} /> },
          user !== undefined && { term: "User", value: <Name text={user} /> },
          status?.policy?.requesterUnknown !== undefined && {
            term: "User unknown",
            value: <Text text={status.policy.requesterUnknown} />,
          },
          row && { term: "Priority", value: String(row.priority) },
          spec?.priorityClassName !== undefined && {
            term: "Priority class",
            value: <Name text={spec.priorityClassName} />,
          },
          row && { term: "Size", value: `${countOf(row.pods, "pod")}, ${countOf(row.gpus, "GPU")}` },
          !row && status?.gpus !== undefined && { term: "GPUs", value: String(status.gpus) },
          row?.nodeCount !== undefined && {
            term: "Nodes",
            value: (
              <>
                <NodeLinks names={row.nodes ?? []} />
                {row.nodeCount > (row.nodes?.length ?? 0) && ` and ${row.nodeCount - (row.nodes?.length ?? 0)} more`}
              </>
            ),
          },
          submitted !== undefined && { term: "Submitted", value: <Ago time={submitted} /> },
          row?.expectedEnd !== undefined && { term: "Ends", value: <Until time={row.expectedEnd} /> },
          status?.completionTime !== undefined && { term: "Ended", value: <Ago time={status.completionTime} /> },
          runtime !== "" && { term: "Ran", value: runtime },
          status?.attempt !== undefined && {
            term: "Restarts",
            value: `${status.restarts ?? 0} of ${restart?.limit ?? DEFAULT_RESTARTS}, disruptions ${status.disruptions ?? 0} of ${restart?.disruptionLimit ?? DEFAULT_DISRUPTIONS}`,
          },
          status?.retryTime !== undefined &&
            Date.parse(status.retryTime) > now.value.getTime() && {
              term: "Not placed before",
              value: <Until time={status.retryTime} />,
            },
          spec?.framework !== undefined && { term: "Framework", value: <Name text={spec.framework} /> },
          status?.profile && { term: "Profile", value: <Name text={status.profile.name} /> },
          spec?.managedBy !== undefined && { term: "Managed by", value: <Name text={spec.managedBy} /> },
          job?.metadata.deletionTimestamp !== undefined && { term: "Deletion", value: "it is being deleted" },
        ]}
      />
    </Card>
  );
}
