import { formatAmount, parseQuantity } from "../../app/text/format";
import { Card } from "../../parts/Card";
import { Table, type Column } from "../../parts/Table";
import { Name } from "../../parts/Text";
import type { NodeResource, NodeState } from "../../wire/cluster";

const COLUMNS: readonly Column<NodeResource>[] = [
  { title: "Resource", cell: (row) => <Name text={row.resource} /> },
  { title: "All", isNumber: true, cell: (row) => formatAmount(row.resource, row.allocatable) },
  { title: "Jobs", isNumber: true, cell: (row) => formatAmount(row.resource, row.jobs) },
  { title: "Others", isNumber: true, cell: (row) => formatAmount(row.resource, row.others) },
  { title: "Kept", isNumber: true, cell: (row) => formatAmount(row.resource, row.kept) },
  { title: "Free", isNumber: true, cell: (row) => freeText(row) },
  { title: "Use", isWide: true, cell: (row) => <UseBar row={row} /> },
];

/** Capacity and use of each resource of a node. */
export function NodeResources({ node }: { readonly node: NodeState }) {
  const rows = node.resources ?? [];
  return (
    <Card title="Resources">
      <Table caption="Capacity and use of each resource" columns={COLUMNS} rows={rows} keyOf={(row) => row.resource} />
    </Card>
  );
}

/** An absent amount is negative: the node has shrunk below its use, or a pod came before another had left. */
function freeText(row: NodeResource): string {
  return row.free === undefined ? "less than 0" : formatAmount(row.resource, row.free);
}

function UseBar({ row }: { readonly row: NodeResource }) {
  const all = parseQuantity(row.allocatable) ?? 0;
  const part = (amount: string): number => (all > 0 ? Math.min((100 * (parseQuantity(amount) ?? 0)) / all, 100) : 0);
  const parts = [
    { kind: "jobs", width: part(row.jobs) },
    { kind: "others", width: part(row.others) },
    { kind: "kept", width: part(row.kept) },
  ];
  return (
    <div class="use-bar" aria-hidden="true">
      {parts.map(({ kind, width }) => width > 0 && <span key={kind} class={`sum-${kind}`} style={{ width: `${width}%` }} />)}
    </div>
  );
}
