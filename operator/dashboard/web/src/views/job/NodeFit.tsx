import { countOf, formatAmount } from "../../app/text/format";
import { SegmentBar } from "../../parts/Bar";
import { Card } from "../../parts/Card";
import { Table } from "../../parts/Table";
import { Name, Text } from "../../parts/Text";
import { NodeLink, NodeLinks } from "../../parts/links";
import type { Amount } from "../../wire/cluster";
import type { Candidate, ExcludedNodes, Explanation, TaskGroupNodes } from "../../wire/job";

/** How the nodes match each task group: what keeps off which nodes, and where there is most room. */
export function NodeFit({ explanation }: { readonly explanation: Explanation }) {
  const groups = explanation.taskGroups ?? [];
  const reserved = explanation.reservedNodes ?? [];
  if (groups.length === 0 && reserved.length === 0) return null;
  return (
    <Card title="Nodes">
      {groups.map((group) => (
        <GroupFit key={group.name} group={group} isOnly={groups.length === 1} />
      ))}
      {reserved.length > 0 && (
        <p class="card-text">
          Reserved for it: <NodeLinks names={reserved} />
        </p>
      )}
    </Card>
  );
}

function GroupFit({ group, isOnly }: { readonly group: TaskGroupNodes; readonly isOnly: boolean }) {
  const excluded = group.excluded ?? [];
  const candidates = group.candidates ?? [];
  const flavors = group.flavors ?? [];
  return (
    <section class="fit">
      {!isOnly && (
        <h3>
          Task group <Name text={group.name} />
        </h3>
      )}
      <p class="card-text">
        <b>{`${group.matching} of ${countOf(group.nodes, "node")}`}</b> match, with room for{" "}
        <b>{`${group.room} of ${countOf(group.pods, "pod")}`}</b>
        {(group.requests?.length ?? 0) > 0 && (
          <>
            {" "}
            of <Amounts amounts={group.requests ?? []} /> each
          </>
        )}
        {flavors.length > 0 && <>, in {flavors.length === 1 ? "flavor" : "flavors"} {flavors.join(", ")}</>}.
      </p>
      <SegmentBar
        noun="node"
        segments={[
          { name: "match", count: group.matching, kind: "good" },
          ...excluded.map((own) => ({
            name: own.detail ? `${own.constraint} ${own.detail}` : own.constraint,
            count: own.count,
            kind: "still" as const,
          })),
        ]}
      />
      {excluded.length > 0 && <ExcludedTable excluded={excluded} />}
      {candidates.length > 0 && <CandidateTable candidates={candidates} />}
    </section>
  );
}

function ExcludedTable({ excluded }: { readonly excluded: readonly ExcludedNodes[] }) {
  return (
    <Table
      caption="Constraints that exclude nodes"
      rows={excluded}
      keyOf={(row) => `${row.constraint} ${row.detail ?? ""}`}
      columns={[
        { title: "Excluded", isNumber: true, cell: (row) => row.count },
        {
          title: "Constraint",
          cell: (row) => (
            <>
              <Name text={row.constraint} />
              {row.detail && (
                <span class="dim">
                  {" "}
                  <Text text={row.detail} max={120} />
                </span>
              )}
            </>
          ),
        },
        { title: "Nodes", isWide: true, cell: (row) => <ExcludedNames row={row} /> },
      ]}
    />
  );
}

function ExcludedNames({ row }: { readonly row: ExcludedNodes }) {
  const names = row.nodes ?? [];
  if (names.length === 0) return <span class="dim">names need the right to list nodestates</span>;
  return (
    <>
      <NodeLinks names={names} />
      {row.count > names.length && ` and ${row.count - names.length} more`}
    </>
  );
}

function CandidateTable({ candidates }: { readonly candidates: readonly Candidate[] }) {
  return (
    <Table
      caption="Matching nodes with the most room"
      rows={candidates}
      keyOf={(row) => row.node}
      columns={[
        { title: "Room for", isNumber: true, cell: (row) => countOf(row.room, "pod") },
        { title: "Best nodes", cell: (row) => <NodeLink name={row.node} /> },
        { title: "Free", isWide: true, cell: (row) => <Amounts amounts={row.free} /> },
      ]}
    />
  );
}

function Amounts({ amounts }: { readonly amounts: readonly Amount[] }) {
  return (
    <>
      {amounts.map((own, place) => (
        <span key={own.resource}>
          {place > 0 && ", "}
          {formatAmount(own.resource, own.amount)} <Name text={own.resource} />
        </span>
      ))}
    </>
  );
}
