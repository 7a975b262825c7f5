import { queue, session } from "../../app/live/store";
import { urls } from "../../app/page/route";
import { barScale, mainResources, readQuotaRows } from "../../app/queue/quota-bar";
import { QuotaBar } from "../../parts/Bar";
import { Card } from "../../parts/Card";
import { QueueLink } from "../../parts/links";

const MAX_QUEUES = 5;

/** Quota of the queues with most jobs. */
export function QueueBars() {
  const queues = queue.queues.value;
  if (session.value && !session.value.may.queues) return null;
  if (!queues || queues.size === 0) return null;
  const busy = [...queues.values()]
    .filter((own) => mainResources(own).length > 0)
    .sort((a, b) => b.pending + b.admitted - (a.pending + a.admitted))
    .slice(0, MAX_QUEUES);
  return (
    <Card title="Quota" aside={<a href={urls.queues}>All queues</a>}>
      <div class="home-quotas">
        {busy.map((own) => {
          const rows = readQuotaRows(own, mainResources(own).slice(0, 1));
          const scale = barScale(rows.map((row) => row.amounts));
          return (
            <div key={own.metadata.name} class="home-quota">
              <h3>
                <QueueLink name={own.metadata.name} />
              </h3>
              {rows.map(({ row, amounts }) => (
                <QuotaBar key={`${row.flavor} ${row.resource}`} row={row} amounts={amounts} scale={scale} />
              ))}
            </div>
          );
        })}
      </div>
    </Card>
  );
}
