import { useMemo, useRef, useState } from "preact/hooks";

import { RANK_STATES, type RankCell, type RankState, countStates, splitByNode } from "../app/job/gang";
import { cleanLine, cutText } from "../app/text/clean";
import { countOf } from "../app/text/format";
import { Legend } from "./Legend";
import { RankDetails } from "./RankDetails";
import { Name } from "./Text";

/** The gang: a cell for each rank, in the order of the ranks, in boxes by node. */
export function Gang({ cells }: { readonly cells: readonly RankCell[] }) {
  const [chosen, setChosen] = useState<number | undefined>(undefined);
  const [current, setCurrent] = useState(0);
  const element = useRef<HTMLDivElement>(null);
  const runs = useMemo(() => boxesOf(cells), [cells]);
  const counts = countStates(cells);
  const open = cells.find((cell) => cell.rank === chosen);
  const isOneGroup = new Set(cells.map((cell) => cell.group)).size === 1;

  /** The gang is one tab stop. Arrow keys walk over the ranks. */
  const onKeyDown = (event: KeyboardEvent): void => {
    const place = cells.findIndex((cell) => cell.rank === current);
    const next = stepFrom(event.key, place, cells.length);
    const cell = next === undefined ? undefined : cells[next];
    if (!cell) return;
    event.preventDefault();
    setCurrent(cell.rank);
    if (chosen !== undefined) setChosen(cell.rank);
    element.current?.querySelector<HTMLElement>(`[data-rank="${cell.rank}"]`)?.focus();
  };

  return (
    <div class="gang">
      <div ref={element} class="gang-runs" role="group" aria-label={describe(counts)} onKeyDown={onKeyDown}>
        {runs.map((run) => (
          <div key={run.cells[0]?.rank} class="gang-run">
            <div class="gang-run-head">
              <span class="gang-node">{run.node === undefined ? run.title : <Name text={run.node} />}</span>
              <span class="dim">
                {!isOneGroup && run.node !== undefined && (
                  <>
                    <Name text={run.group} />{" "}
                  </>
                )}
                {rangeOf(run)}
              </span>
            </div>
            <div class="gang-cells">
              {run.cells.map((cell) => (
                <button
                  key={cell.rank}
                  type="button"
                  class={`rank rank-${cell.state}`}
                  data-rank={cell.rank}
                  tabIndex={cell.rank === current ? 0 : -1}
                  aria-pressed={cell.rank === chosen}
                  aria-label={`Rank ${cell.rank}, ${RANK_STATES[cell.state]}`}
                  title={titleOf(cell)}
                  onClick={() => {
                    setCurrent(cell.rank);
                    setChosen(cell.rank === chosen ? undefined : cell.rank);
                  }}
                />
              ))}
            </div>
          </div>
        ))}
      </div>
      <div aria-live="polite">{open && <RankDetails cell={open} onClose={() => setChosen(undefined)} />}</div>
      <Legend
        label="States of ranks"
        entries={(Object.keys(RANK_STATES) as RankState[])
          .filter((state) => counts.has(state))
          .map((state) => ({
            sample: <span class={`rank rank-${state}`} />,
            text: `${RANK_STATES[state]}: ${counts.get(state) ?? 0}`,
          }))}
      />
    </div>
  );
}

/** A box of cells: of one node, or of one task group. */
interface Box {
  readonly group: string;
  readonly node: string | undefined;
  /** Title of a box that is of no node. */
  readonly title: string;
  readonly cells: readonly RankCell[];
}

/** Boxes for each node are of use while there are some pods in each, and not too many boxes. */
const MAX_BOXES = 96;

function boxesOf(cells: readonly RankCell[]): Box[] {
  const runs = splitByNode(cells);
  const isSparse = cells.length < runs.length * 2 && runs.length > 12;
  if (!isSparse && runs.length <= MAX_BOXES) return runs.map((run) => ({ ...run, title: "no node" }));
  const groups = Map.groupBy(cells, (cell) => cell.group);
  return [...groups].map(([group, own]) => ({ group, node: undefined, title: group, cells: own }));
}

function titleOf(cell: RankCell): string {
  const node = cell.pod?.node;
  const state = cell.pod?.state ?? RANK_STATES[cell.state];
  return cleanLine(cutText(`Rank ${cell.rank}: ${state}${node === undefined ? "" : ` on ${node}`}`, 200).text);
}

function stepFrom(key: string, place: number, count: number): number | undefined {
  switch (key) {
    case "ArrowRight":
    case "ArrowDown":
      return Math.min(place + 1, count - 1);
    case "ArrowLeft":
    case "ArrowUp":
      return Math.max(place - 1, 0);
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return undefined;
  }
}

function rangeOf(run: Box): string {
  const first = run.cells[0]?.rank ?? 0;
  const last = run.cells.at(-1)?.rank ?? first;
  return first === last ? `rank ${first}` : `ranks ${first}–${last}`;
}

function describe(counts: ReadonlyMap<RankState, number>): string {
  const parts = [...counts].map(([state, count]) => `${countOf(count, "rank")} ${RANK_STATES[state]}`);
  return `Gang: ${parts.join(", ")}. Arrow keys walk over the ranks, Enter shows one.`;
}
