import { useComputed } from "@preact/signals";

import { type JobFilter, type JobOrder, SORT_COLUMNS, phaseOf, readOrder, writeOrder } from "../../app/job/jobs";
import { queue, session } from "../../app/live/store";
import { query, setQuery } from "../../app/page/route";
import { isNarrow } from "../../app/page/viewport";
import { cleanLine } from "../../app/text/clean";
import { Icon } from "../../parts/Icon";
import { NamespaceFilter } from "../../parts/NamespaceFilter";
import { Select } from "../../parts/Select";

/** What the list of jobs shows. The filters are in the URL. */
export function JobFilters({ filter, isTimeline }: { readonly filter: JobFilter; readonly isTimeline: boolean }) {
  const choices = useComputed(() => {
    const jobs = [...queue.jobs.value.values()];
    const queues = [...(queue.queues.value?.keys() ?? []), ...jobs.map((job) => job.queue)];
    return {
      phases: unique(jobs.map(phaseOf)),
      queues: unique(queues),
      namespaces: unique(jobs.map((job) => job.metadata.namespace ?? "")),
    };
  });
  const user = session.value?.user;
  const isMine = user !== undefined && filter.user === user;
  const { phases, queues, namespaces } = choices.value;
  return (
    <div class="toolbar" role="group" aria-label="Filters">
      <input
        type="search"
        class="field grow"
        aria-label="Filter by text"
        placeholder="Name, user, queue or reason"
        maxLength={200}
        value={filter.text ?? ""}
        onInput={(event) => setQuery({ text: event.currentTarget.value })}
      />
      <button
        type="button"
        class="button toggle"
        aria-pressed={isMine}
        disabled={user === undefined}
        onClick={() => setQuery({ user: isMine ? undefined : user }, { step: true })}
      >
        Mine
      </button>
      <Select
        label="State"
        value={filter.state}
        all="All states"
        options={[
          ["waiting", "Pending"],
          ["running", "Placed"],
          ...phases.map((phase): [string, string] => [phase, phase]),
        ]}
        onChange={(state) => setQuery({ state }, { step: true })}
      />
      <Select
        label="Queue"
        value={filter.queue}
        all="All queues"
        options={queues.map((name) => [name, name])}
        onChange={(q) => setQuery({ q }, { step: true })}
      />
      <NamespaceFilter value={filter.namespace} namespaces={namespaces} />
      {filter.user !== undefined && !isMine && (
        <button type="button" class="chip" onClick={() => setQuery({ user: undefined }, { step: true })}>
          user {cleanLine(filter.user)} <Icon name="cross" label="Remove this filter" />
        </button>
      )}
      {isNarrow.value && !isTimeline && <SortSelect />}
      <div class="segmented" role="group" aria-label="View">
        <button type="button" aria-pressed={!isTimeline} onClick={() => setQuery({ view: undefined }, { step: true })}>
          <Icon name="jobs" /> Table
        </button>
        <button type="button" aria-pressed={isTimeline} onClick={() => setQuery({ view: "timeline" }, { step: true })}>
          <Icon name="timeline" /> Timeline
        </button>
      </div>
    </div>
  );
}

/** The order on a narrow screen, whose rows have no headers. */
function SortSelect() {
  const order = readOrder(query.value.get("sort"));
  const names: readonly [string, string][] = SORT_COLUMNS.flatMap((column) => {
    const write = (descending: boolean): string => writeOrder({ column, descending } satisfies JobOrder) ?? "";
    return [
      [write(false), `${column}, ascending`],
      [write(true), `${column}, descending`],
    ];
  });
  return (
    <Select
      label="Order"
      value={writeOrder(order)}
      all="Order of the queue"
      options={names}
      onChange={(sort) => setQuery({ sort }, { step: true })}
    />
  );
}

function unique(values: readonly string[]): string[] {
  return [...new Set(values)].sort();
}
