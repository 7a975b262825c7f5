import { useId } from "preact/hooks";

import { type QueueNode, namesBelow } from "../../app/queue/queue-tree";
import type { QuotaRow } from "../../app/queue/quota-bar";
import { countOf } from "../../app/text/format";
import { QuotaBar } from "../../parts/Bar";
import { Icon } from "../../parts/Icon";
import { Name } from "../../parts/Text";
import { QueueLink } from "../../parts/links";
import { QueueBadge } from "./QueueBadge";
import { QueueJobLists } from "./QueueJobLists";

/** A queue in the tree. A click shows who holds its quota and who waits. */
export function QueueRow(props: {
  readonly node: QueueNode;
  readonly quotas: readonly QuotaRow[];
  readonly scales: ReadonlyMap<string, number>;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}) {
  const { node, isOpen } = props;
  const { queue } = node;
  const id = useId();
  return (
    <li class={isOpen ? "queue-row is-open" : "queue-row"} style={{ "--depth": String(node.depth) }}>
      <div class="queue-row-main">
        <div class="queue-name">
          <button
            type="button"
            class="icon-button"
            data-row
            aria-expanded={isOpen}
            aria-controls={id}
            aria-label={`Jobs of queue ${queue.metadata.name}`}
            onClick={props.onToggle}
          >
            <Icon name={isOpen ? "down" : "right"} />
          </button>
          <div>
            <h2>
              <QueueLink name={queue.metadata.name} />
            </h2>
            {queue.parent !== undefined && (
              <span class="hidden">
                below queue <Name text={queue.parent} />
              </span>
            )}
            <p class="queue-facts">
              <span>{countOf(queue.admitted, "job")} placed</span>
              <span>{queue.pending} pending</span>
              <span title="Usage divided by the weight, as a part of the cluster. It decides the next turn.">
                share {queue.share ?? "–"}
              </span>
              <span>weight {queue.weight}</span>
            </p>
            <p class="queue-badges">
              <QueueBadge queue={queue} />
              {node.isNext && (
                <span
                  class="badge tone-starting"
                  title="Of the queues with this parent that have pending jobs, it has the smallest share. Quota and the priority of a queue may change the turn."
                >
                  <Icon name="arrow" />
                  next turn
                </span>
              )}
            </p>
          </div>
        </div>
        <div class="queue-bars">
          {props.quotas.length === 0 && <p class="dim">No quota: the capacity of the nodes decides.</p>}
          {props.quotas.map(({ row, amounts }) => (
            <QuotaBar
              key={`${row.flavor} ${row.resource}`}
              row={row}
              amounts={amounts}
              scale={props.scales.get(row.resource) ?? 0}
            />
          ))}
        </div>
      </div>
      <div id={id} class="queue-jobs" hidden={!isOpen}>
        {isOpen && <QueueJobLists names={namesBelow(node)} queue={queue.metadata.name} />}
      </div>
    </li>
  );
}
