import { Card, Facts } from "../../parts/Card";
import { Name } from "../../parts/Text";
import { Age } from "../../parts/Time";
import type { NodeState } from "../../wire/cluster";

/** Domains, taints and age of a node. */
export function NodeFacts({ node }: { readonly node: NodeState }) {
  const { domains = [], taints = [], metadata } = node;
  return (
    <Card title="Node">
      <Facts
        facts={[
          ...domains.map((entry) => ({
            term: `${entry.level} (${entry.topology})`,
            value: <Name text={entry.domain} />,
          })),
          domains.length === 0 && { term: "Domains", value: "none: no Topology has labels of this node" },
          { term: "Taints", value: taints.length === 0 ? "none" : <TaintList taints={taints} /> },
          metadata.creationTimestamp !== undefined && { term: "Age", value: <Age time={metadata.creationTimestamp} /> },
        ]}
      />
    </Card>
  );
}

function TaintList({ taints }: { readonly taints: readonly string[] }) {
  return (
    <ul class="plain-list">
      {taints.map((taint) => (
        <li key={taint}>
          <code>
            <Name text={taint} />
          </code>
        </li>
      ))}
    </ul>
  );
}
