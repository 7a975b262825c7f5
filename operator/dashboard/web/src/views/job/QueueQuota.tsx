import { barScale, mainResources, readQuotaRows } from "../../app/queue/quota-bar";
import { countOf } from "../../app/text/format";
import { QuotaBar } from "../../parts/Bar";
import { Card } from "../../parts/Card";
import { QueueLink } from "../../parts/links";
import type { QueueState } from "../../wire/cluster";

/** The quota of the job's queue. */
export function QueueQuota({ queue }: { readonly queue: QueueState }) {
  const rows = readQuotaRows(queue, mainResources(queue));
  return (
    <Card title="Queue" aside={<QueueLink name={queue.metadata.name} />}>
      <div class="card-text">
        {rows.length === 0 && <p class="dim">No quota: the capacity of the nodes decides.</p>}
        {rows.map(({ row, amounts }) => (
          <QuotaBar
            key={`${row.flavor} ${row.resource}`}
            row={row}
            amounts={amounts}
            scale={barScale(rows.filter((other) => other.row.resource === row.resource).map((own) => own.amounts))}
          />
        ))}
        <p class="dim">
          {`${countOf(queue.admitted, "job")} admitted, ${queue.pending} pending${queue.share === undefined ? "" : `, share ${queue.share}`}`}
        </p>
      </div>
    </Card>
  );
}
