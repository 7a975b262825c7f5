import { useComputed } from "@preact/signals";

import { type JobOrder, filterJobs, readOrder, writeOrder } from "../app/job/jobs";
import { queueFreshness } from "../app/live/freshness";
import { queue as store } from "../app/live/store";
import { query, search, setQuery, urls } from "../app/page/route";
import { useTitle } from "../app/page/title";
import { buildQueueTree, flattenTree, namesBelow } from "../app/queue/queue-tree";
import { barScale, boundedResources, readQuotaRows } from "../app/queue/quota-bar";
import { countOf, formatAmount } from "../app/text/format";
import { command } from "../app/text/shell-quote";
import { writeChanges } from "../app/what-if/changes";
import { Badge } from "../parts/Badge";
import { Loading } from "../parts/Banner";
import { QuotaBar } from "../parts/Bar";
import { Card, Facts } from "../parts/Card";
import { Command } from "../parts/Copy";
import { Icon } from "../parts/Icon";
import { JobTable } from "../parts/JobTable";
import { ListProblem } from "../parts/ListProblem";
import { Name } from "../parts/Text";
import { Ago } from "../parts/Time";
import { QueueLink } from "../parts/links";
import type { QueueState } from "../wire/cluster";
import { QueueBadge } from "./queue/QueueBadge";
import { QueueJobLists } from "./queue/QueueJobLists";
import { QuotaLegend } from "./queue/QuotaLegend";

/** One queue: its quota, who holds it, and its jobs in their order. */
export function Queue({ name }: { readonly name: string }) {
  useTitle(`Queue ${name}`);
  const jobs = useComputed(() => filterJobs(store.jobs.value.values(), { queue: name }));
  const tree = useComputed(() => buildQueueTree(store.queues.value ?? new Map()));
  const freshness = queueFreshness.value;
  if (freshness.state === "failed") return <ListProblem title={name} problem={freshness.problem} />;
  const node = flattenTree(tree.value).find((own) => own.queue.metadata.name === name);
  const isKnown = node !== undefined || jobs.value.length > 0 || store.queues.value === null;
  const order = readOrder(query.value.get("sort"));
  return (
    <div class="page">
      <div class="page-head">
        <p class="crumbs">
          <a href={urls.queues}>Queues</a>
        </p>
        <h1>
          <Name text={name} />
        </h1>
        {node?.queue.active && node.queue.reason !== "QuotaBypassed" && (
          <Badge tone="good" icon="check">
            Active
          </Badge>
        )}
        {node && <QueueBadge queue={node.queue} />}
      </div>
      {freshness.state === "loading" && <Loading rows={8} />}
      {freshness.state !== "loading" && !isKnown && (
        <p>No queue and no job has this name. It may have been deleted.</p>
      )}
      {node && (
        <div class="queue-page">
          <Card title="Quota" aside={<QuotaLegend />}>
            <Quota queue={node.queue} />
          </Card>
          <Card title="Facts">
            <QueueFacts queue={node.queue} children={node.children.map((child) => child.queue.metadata.name)} />
          </Card>
        </div>
      )}
      {node && node.children.length > 0 && (
        <Card title="Jobs of this queue and the queues below it">
          <QueueJobLists names={namesBelow(node)} queue={name} />
        </Card>
      )}
      {jobs.value.length > 0 && (
        <section aria-label="Jobs">
          <div class="section-head">
            <h2>Jobs</h2>
            <a href={urls.jobs({ q: name })}>
              <Icon name="search" /> Filter
            </a>
            <a href={urls.timeline({ q: name })}>
              <Icon name="timeline" /> Timeline
            </a>
          </div>
          <JobTable
            jobs={jobs.value}
            order={order}
            onOrder={(next: JobOrder) => setQuery({ sort: writeOrder(next) }, { step: true })}
            selection={search.value}
          />
        </section>
      )}
      {isKnown && freshness.state !== "loading" && jobs.value.length === 0 && (
        <p class="dim">No job of this queue is pending or placed.</p>
      )}
      {node && (
        <p class="what-if-link">
          <a href={urls.whatIf({ changes: writeChanges([{ changeQueue: { name } }]) })}>
            <Icon name="whatIf" /> What if this queue had another quota?
          </a>
        </p>
      )}
      <Command label="Same in a terminal" text={command("trellis", "queue", name, "-A")} />
    </div>
  );
}

function Quota({ queue }: { readonly queue: QueueState }) {
  const rows = readQuotaRows(queue, boundedResources(queue));
  if (rows.length === 0) return <p class="card-text dim">No quota: the capacity of the nodes decides.</p>;
  return (
    <div class="queue-bars">
      {rows.map(({ row, amounts }) => {
        const alike = rows.filter((other) => other.row.resource === row.resource);
        return (
          <QuotaBar
            key={`${row.flavor} ${row.resource}`}
            row={row}
            amounts={amounts}
            scale={barScale(alike.map((other) => other.amounts))}
          />
        );
      })}
    </div>
  );
}

function QueueFacts({ queue, children }: { readonly queue: QueueState; readonly children: readonly string[] }) {
  return (
    <Facts
      facts={[
        { term: "Placed", value: countOf(queue.admitted, "job") },
        { term: "Pending", value: countOf(queue.pending, "job") },
        { term: "Share", value: queue.share ?? "unknown" },
        { term: "Weight", value: queue.weight },
        queue.parent !== undefined && { term: "Parent", value: <QueueLink name={queue.parent} /> },
        children.length > 0 && {
          term: "Below it",
          value: children.map((name, place) => (
            <span key={name}>
              {place > 0 && ", "}
              <QueueLink name={name} />
            </span>
          )),
        },
        (queue.decayedUsage?.length ?? 0) > 0 && {
          term: "Usage, half-life 7 days",
          value: (
            <>
              {queue.decayedUsage?.map((own) => (
                <div key={own.resource}>
                  {formatAmount(own.resource, own.amount)} <Name text={own.resource} />
                </div>
              ))}
              {queue.decayedTime && (
                <span class="dim">
                  computed <Ago time={queue.decayedTime} />
                </span>
              )}
            </>
          ),
        },
      ]}
    />
  );
}
