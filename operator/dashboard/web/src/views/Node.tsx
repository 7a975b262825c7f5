import { useEffect } from "preact/hooks";

import { nodesFreshness } from "../app/live/freshness";
import { follow, nodes, session } from "../app/live/store";
import { urls } from "../app/page/route";
import { useTitle } from "../app/page/title";
import { command } from "../app/text/shell-quote";
import { writeChanges } from "../app/what-if/changes";
import { stateWord } from "../draw/node/devices";
import { Badge } from "../parts/Badge";
import { Banner, Empty } from "../parts/Banner";
import { Card } from "../parts/Card";
import { Command } from "../parts/Copy";
import { Icon } from "../parts/Icon";
import { Name, Text } from "../parts/Text";
import type { NodeState } from "../wire/cluster";
import { JobsNamingNode } from "./node/JobsNamingNode";
import { NodeCells } from "./node/NodeCells";
import { NodeFacts } from "./node/NodeFacts";
import { AvoidingJobs, HoldingJobs, KeptPlaces, Reservations } from "./node/NodeJobs";
import { NodeResources } from "./node/NodeResources";
import { NodesNotHere, NoRightToNodes } from "./nodes/NoNodes";

/** One node: its capacity and use, who holds it, and whether it takes pods. */
export function NodeView({ name }: { readonly name: string }) {
  useTitle(`Node ${name}`);
  useEffect(() => follow("nodes"), []);
  const node = nodes.nodes.value.get(name);
  return (
    <div class="page drawing">
      <div class="page-head">
        <p class="crumbs">
          <a href={urls.nodes()}>Nodes</a>
        </p>
        <h1>
          <Name text={name} />
        </h1>
        {node && <NodeBadge node={node} />}
        {node && (
          <a href={urls.nodes({ at: name })}>
            <Icon name="map" /> show on map
          </a>
        )}
        {node && (
          <a href={urls.whatIf({ changes: writeChanges([{ removeNode: { name } }]) })}>
            <Icon name="whatIf" /> what if it were removed
          </a>
        )}
      </div>
      {node ? <NodeContent node={node} name={name} /> : <MissingNode name={name} />}
    </div>
  );
}

function NodeBadge({ node }: { readonly node: NodeState }) {
  const word = stateWord(node);
  if (!node.schedulable) {
    return (
      <Badge tone="bad" icon="ban">
        <Name text={word === "" ? "takes no pods" : word} />
      </Badge>
    );
  }
  return (
    <Badge tone={word === "Full" ? "still" : "good"} icon={word === "Full" ? "nodes" : word === "Mixed" ? "half" : "check"}>
      {word}
    </Badge>
  );
}

function NodeContent({ node, name }: { readonly node: NodeState; readonly name: string }) {
  const freshness = nodesFreshness.value;
  return (
    <>
      {(node.reasons ?? []).map((reason) => (
        <Banner key={reason.reason} tone="bad" title={`Takes no new pods: ${reason.reason}`}>
          <Text text={reason.message} />
        </Banner>
      ))}
      <div class={`node-page ${freshness.state === "stale" ? "is-stale" : ""}`}>
        <div class="node-main">
          <NodeCells node={node} />
          <NodeResources node={node} />
          <HoldingJobs node={node} />
          <Reservations node={node} />
          <KeptPlaces node={node} />
          <AvoidingJobs node={node} />
        </div>
        <div class="node-side">
          <NodeFacts node={node} />
          <Card title="Command line">
            <Command label="this row" text={command("trellis", "nodes", name)} />
            <Command label="object" text={command("kubectl", "describe", "node", name)} />
          </Card>
        </div>
      </div>
    </>
  );
}

/** Stands in the place of a node that is not in the list. */
function MissingNode({ name }: { readonly name: string }) {
  const problem = nodes.problem.value;
  const freshness = nodesFreshness.value;
  if (problem?.kind === "denied" || session.value?.may.nodes === false) {
    return (
      <div class="no-nodes">
        <JobsNamingNode name={name} />
        <NoRightToNodes problem={problem} />
      </div>
    );
  }
  if (freshness.state === "failed" || freshness.state === "loading") return <NodesNotHere />;
  return (
    <>
      <Empty title="There is no such node">
        <p>It may have been deleted. A deleted node stays in the list while it still has pods.</p>
      </Empty>
      <JobsNamingNode name={name} />
    </>
  );
}
