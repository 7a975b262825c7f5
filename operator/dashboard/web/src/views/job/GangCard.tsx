import { useMemo } from "preact/hooks";

import { type RankCell, buildGang } from "../../app/job/gang";
import { countOf } from "../../app/text/format";
import { Card } from "../../parts/Card";
import { Gang } from "../../parts/Gang";
import { Table } from "../../parts/Table";
import { Name, Text } from "../../parts/Text";
import { Until } from "../../parts/Time";
import { NodeLink } from "../../parts/links";
import type { LevelPlacement, MissingPods, StatusReport } from "../../wire/job";

const MAX_BAD = 6;

/** The pods of the job: a cell for each rank, those that failed, and those that are missing. */
export function GangCard({ report }: { readonly report: StatusReport }) {
  const cells = useMemo(() => buildGang(report), [report]);
  const { status } = report.job;
  const bad = cells.filter((cell) => cell.state === "failed");
  const missing = report.missing.filter((own) => !own.done);
  const ready = status?.ready && `${status.ready} ready`;
  const stage = status?.stage && `stage ${status.stage.number} of ${status.stage.of}`;
  return (
    <Card title="Gang" aside={[ready, stage, countOf(cells.length, "pod")].filter(Boolean).join(" · ")}>
      <Gang cells={cells} />
      {bad.length > 0 && <BadPods cells={bad} />}
      {missing.length > 0 && <Missing rows={missing} />}
      {(status?.placement ?? []).map((level) => (
        <Placement key={level.level} level={level} />
      ))}
    </Card>
  );
}

function BadPods({ cells }: { readonly cells: readonly RankCell[] }) {
  return (
    <section>
      <h3 class="card-text">Pods that failed or are stuck</h3>
      <Table
        caption="Pods that failed or are stuck"
        rows={cells.slice(0, MAX_BAD)}
        keyOf={(cell) => cell.rank}
        columns={[
          { title: "Rank", isNumber: true, cell: (cell) => cell.rank },
          { title: "Node", cell: (cell) => (cell.pod?.node ? <NodeLink name={cell.pod.node} /> : "–") },
          { title: "State", cell: (cell) => <Name text={cell.pod?.state ?? ""} /> },
          { title: "Exit", isNumber: true, cell: (cell) => cell.pod?.exitCode ?? "–" },
          {
            title: "Last line",
            isWide: true,
            cell: (cell) => (
              <code>
                <Text text={cell.pod?.message ?? ""} max={240} />
              </code>
            ),
          },
        ]}
      />
      {cells.length > MAX_BAD && <p class="card-text dim">{countOf(cells.length - MAX_BAD, "more pod")}</p>}
    </section>
  );
}

function Missing({ rows }: { readonly rows: readonly MissingPods[] }) {
  return (
    <section>
      <h3 class="card-text">Missing pods</h3>
      <Table
        caption="Missing pods"
        rows={rows}
        keyOf={(row) => `${row.group} ${row.indexes}`}
        columns={[
          { title: "Group", cell: (row) => <Name text={row.group} /> },
          { title: "Ranks", cell: (row) => <Name text={row.ranks} /> },
          { title: "Pods", isNumber: true, cell: (row) => row.count },
          {
            title: "Why",
            isWide: true,
            cell: (row) => (
              <>
                <Text text={row.why} />
                {row.notBefore && (
                  <>
                    , not before <Until time={row.notBefore} />
                  </>
                )}
              </>
            ),
          },
        ]}
      />
    </section>
  );
}

/** How a ring over the ranks crosses the domains of a level. */
function Placement({ level }: { readonly level: LevelPlacement }) {
  const excess = level.crossings > level.leastCrossings;
  return (
    <p class="card-text">
      <b>
        <Name text={level.level} />
      </b>
      : {countOf(level.domains, "domain")}; a ring over the ranks crosses them {countOf(level.crossings, "time")}
      {excess && `, at least ${level.leastCrossings}: pods that move or join later keep their ranks until the job is suspended and resumed`}
      .
    </p>
  );
}
