import { nodesFreshness, queueFreshness } from "../../app/live/freshness";
import { queue, type Problem } from "../../app/live/store";
import { urls } from "../../app/page/route";
import { formatCount, resourceLabel } from "../../app/text/format";
import { isDevice } from "../../draw/node/devices";
import { wholeUnits } from "../../draw/node/quantity";
import { Loading } from "../../parts/Banner";
import { Card } from "../../parts/Card";
import { ProblemText } from "../../parts/ListProblem";
import { RoleCommands } from "../../parts/RoleCommands";
import { Name, Text } from "../../parts/Text";
import { QueueLink } from "../../parts/links";

/** Stands in the place of nodes that the user may not list: which right is missing, and what can be seen. */
export function NoRightToNodes({ problem }: { readonly problem: Problem | undefined }) {
  return (
    <div class="no-nodes">
      <Card title="You may not list the nodes">
        <p class="card-text">
          {problem ? (
            <Text text={problem.message} />
          ) : (
            "The right to list nodestates.visibility.trellis.dev is missing. The ClusterRole trellis-platform has it."
          )}
        </p>
        <p class="card-text">
          Rows of nodes name the jobs of all namespaces. An administrator can grant the right to list nodes without the
          other rights of trellis-platform:
        </p>
        <RoleCommands role="trellis-read-nodes" verbs="get,list" resource="nodestates.visibility.trellis.dev" />
      </Card>
      <FreeQuota />
      <p>
        The page of a job names its own nodes, and says why a waiting job does not start. <a href={urls.jobs()}>All jobs that you may see</a>
      </p>
    </div>
  );
}

/** The free quota of the queues, which users without nodes can see. */
function FreeQuota() {
  const queues = [...(queue.queues.value?.values() ?? [])];
  const rows = queues.flatMap((entry) =>
    (entry.resources ?? [])
      .filter((resource) => isDevice(resource.resource) && resource.available !== undefined)
      .map((resource) => ({ name: entry.metadata.name, ...resource })),
  );
  if (rows.length === 0) return null;
  return (
    <Card title="Free quota of your queues">
      <ul class="card-text plain-list">
        {rows.map((row) => (
          <li key={`${row.name} ${row.flavor} ${row.resource}`}>
            <QueueLink name={row.name} />: {formatCount(wholeUnits(row.available))} <Name text={resourceLabel(row.resource, row.flavor)} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Stands in the place of nodes that have not arrived: the cause, if there is one. Jobs are asked for first. */
export function NodesNotHere() {
  const [own, jobs] = [nodesFreshness.value, queueFreshness.value];
  if (own.state === "failed") return <ProblemText problem={own.problem} />;
  if (jobs.state === "failed") return <ProblemText problem={jobs.problem} />;
  return <Loading rows={8} />;
}
