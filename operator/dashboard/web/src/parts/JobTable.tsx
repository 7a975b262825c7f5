import { useComputed } from "@preact/signals";
import { useMemo, useRef, useState } from "preact/hooks";

import { type JobOrder, type SortColumn, nextOrder, sortJobs } from "../app/job/jobs";
import { comparePausedOrder } from "../app/list/paused-order";
import { jobKey, queue } from "../app/live/store";
import { urls } from "../app/page/route";
import { isNarrow } from "../app/page/viewport";
import { countOf } from "../app/text/format";
import type { JobState } from "../wire/cluster";
import { Icon } from "./Icon";
import { JobCells } from "./JobCells";
import { VirtualRows } from "./VirtualRows";

/** Height of a row, in pixels. `style/job-table.css` has the same numbers. */
const ROW_HEIGHT = 34;
const CARD_HEIGHT = 96;

const COLUMNS: readonly { readonly column: SortColumn; readonly title: string; readonly hint?: string }[] = [
  { column: "position", title: "Pos", hint: "Position in the order of its queue" },
  { column: "job", title: "Job" },
  { column: "user", title: "User" },
  { column: "queue", title: "Queue" },
  { column: "priority", title: "Priority" },
  { column: "gpus", title: "GPUs" },
  { column: "pods", title: "Pods" },
  { column: "state", title: "State" },
  { column: "since", title: "Since" },
  { column: "eta", title: "Expected", hint: "Expected start or end. No promise." },
  { column: "reason", title: "Reason" },
];

/** Jobs as `trellis queue` lists them, also ten thousand. */
export function JobTable(props: {
  readonly jobs: readonly JobState[];
  readonly order: JobOrder;
  readonly onOrder: (order: JobOrder) => void;
  /** Names the selection and the order. After the user has changed them, rows move at once. */
  readonly selection: string;
}) {
  const { jobs, order, onOrder, selection } = props;
  const sorted = useMemo(() => sortJobs(jobs, order).map(jobKey), [jobs, order.column, order.descending]);
  const paused = usePausedOrder(sorted, selection);
  const rowHeight = isNarrow.value ? CARD_HEIGHT : ROW_HEIGHT;
  return (
    <div class="job-table-frame" {...paused.listeners}>
      {paused.changes > 0 && (
        <div class="paused">
          <button type="button" class="button" onClick={paused.resume}>
            <Icon name="restart" />
            {countOf(paused.changes, "change")}
          </button>
        </div>
      )}
      <div class="job-table" role="table" aria-label="Jobs" aria-rowcount={paused.keys.length + 1}>
        <div class="job-table-head" role="rowgroup">
          <div class="job-row" role="row" aria-rowindex={1}>
            {COLUMNS.map(({ column, title, hint }) => (
              <SortHeader
                key={column}
                column={column}
                title={title}
                hint={hint}
                order={order}
                onOrder={onOrder}
              />
            ))}
          </div>
        </div>
        <VirtualRows
          keys={paused.keys}
          rowHeight={rowHeight}
          row={(key) => <JobRow jobKey={key} />}
        />
      </div>
    </div>
  );
}

function SortHeader(props: {
  readonly column: SortColumn;
  readonly title: string;
  readonly hint: string | undefined;
  readonly order: JobOrder;
  readonly onOrder: (order: JobOrder) => void;
}) {
  const { column, title, hint, order, onOrder } = props;
  const isSorted = order.column === column;
  const direction = order.descending ? "descending" : "ascending";
  return (
    <div class={`cell cell-${column}`} role="columnheader" aria-sort={isSorted ? direction : "none"}>
      <button type="button" class="sort" title={hint} onClick={() => onOrder(nextOrder(order, column))}>
        {title}
        {isSorted && <Icon name={order.descending ? "down" : "up"} />}
      </button>
    </div>
  );
}

/** A row reads its own job: a change of one job draws one row. */
function JobRow({ jobKey: key }: { readonly jobKey: string }) {
  const last = useRef<JobState | undefined>(undefined);
  const current = useComputed(() => queue.jobs.value.get(key)).value;
  if (current) last.current = current;
  const job = current ?? last.current;
  if (!job) return null;
  const { namespace = "", name } = job.metadata;
  return (
    <div class={current ? "job-row" : "job-row is-gone"} role="presentation">
      <JobCells job={job} href={urls.job({ namespace, name })} isGone={!current} />
    </div>
  );
}

/** While the user points at the table or is in it with the keyboard, rows stay where they are. */
function usePausedOrder(current: readonly string[], selection: string) {
  const [isPaused, setPaused] = useState(false);
  const shown = useRef({ keys: current, selection });
  if (!isPaused || shown.current.selection !== selection) shown.current = { keys: current, selection };
  const [, redraw] = useState(0);
  const { keys, changes } =
    shown.current.keys === current
      ? { keys: current, changes: 0 }
      : comparePausedOrder(shown.current.keys, current);
  return {
    keys,
    changes,
    resume: () => {
      shown.current = { keys: current, selection };
      redraw((count) => count + 1);
    },
    listeners: {
      onPointerEnter: (event: PointerEvent) => setPaused(event.pointerType === "mouse"),
      onPointerLeave: () => setPaused(false),
    },
  };
}
