import { useComputed } from "@preact/signals";

import { queueFreshness } from "../app/live/freshness";
import { queue } from "../app/live/store";
import { query, setQuery, urls } from "../app/page/route";
import { useTitle } from "../app/page/title";
import { type QueueNode, buildQueueTree, flattenTree } from "../app/queue/queue-tree";
import { type QuotaRow, barScale, boundedResources, mainResources, readQuotaRows } from "../app/queue/quota-bar";
import { countOf } from "../app/text/format";
import { Empty, Loading } from "../parts/Banner";
import { ListProblem } from "../parts/ListProblem";
import { QueueRow } from "./queue/QueueRow";
import { QuotaLegend } from "./queue/QuotaLegend";

/** The tree of queues: quota, use, what is borrowed, and whose turn is next. */
export function Queues() {
  useTitle("Queues");
  const tree = useComputed(() => buildQueueTree(queue.queues.value ?? new Map()));
  const freshness = queueFreshness.value;
  if (freshness.state === "failed") return <ListProblem title="Queues" problem={freshness.problem} />;
  const showAll = query.value.get("resources") === "all";
  const open = query.value.get("open") ?? undefined;
  const rows = flattenTree(tree.value);
  return (
    <div class="page">
      <div class="page-head">
        <h1>Queues</h1>
        <p class="counts">
          <span>{countOf(rows.length, "queue")}</span>
        </p>
      </div>
      {queue.queues.value === null ? (
        <Empty title="You may not list queues.">
          <p class="dim">
            The right is list on queuestates.visibility.trellis.dev; the ClusterRole trellis-view has it. Ask an
            administrator. <a href={urls.jobs()}>Your jobs</a> are listed all the same.
          </p>
        </Empty>
      ) : freshness.state === "loading" ? (
        <Loading rows={8} />
      ) : rows.length === 0 ? (
        <Empty title="The cluster has no queue." />
      ) : (
        <>
          <div class="toolbar">
            <QuotaLegend />
            <button
              type="button"
              class="button toggle"
              aria-pressed={showAll}
              onClick={() => setQuery({ resources: showAll ? undefined : "all" }, { step: true })}
            >
              All resources
            </button>
          </div>
          <QueueTree rows={rows} showAll={showAll} open={open} />
        </>
      )}
    </div>
  );
}

function QueueTree(props: {
  readonly rows: readonly QueueNode[];
  readonly showAll: boolean;
  readonly open: string | undefined;
}) {
  const quotas = props.rows.map((node) =>
    readQuotaRows(node.queue, props.showAll ? boundedResources(node.queue) : mainResources(node.queue)),
  );
  const scales = scalesByResource(quotas.flat());
  return (
    <ul class="queue-tree">
      {props.rows.map((node, place) => {
        const { name } = node.queue.metadata;
        return (
          <QueueRow
            key={name}
            node={node}
            quotas={quotas[place] ?? []}
            scales={scales}
            isOpen={props.open === name}
            onToggle={() => setQuery({ open: props.open === name ? undefined : name })}
          />
        );
      })}
    </ul>
  );
}

/** Bars of one resource have one scale, so that queues can be compared. */
function scalesByResource(rows: readonly QuotaRow[]): ReadonlyMap<string, number> {
  const byResource = Map.groupBy(rows, ({ row }) => row.resource);
  return new Map([...byResource].map(([resource, own]) => [resource, barScale(own.map((row) => row.amounts))]));
}
