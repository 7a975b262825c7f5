import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import { isNarrow } from "../app/page/viewport";

/** A column of a short table. */
export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => ComponentChildren;
  /** Numbers stand at the right. */
  readonly isNumber?: boolean;
  /** The column takes the room that is left. */
  readonly isWide?: boolean;
}

/** A short table, all of whose rows are in the document. `JobTable` is for ten thousand rows. */
export function Table<Row>(props: {
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string | number;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const narrow = isNarrow.value;
  useLayoutEffect(() => {
    const element = frame.current;
    // A table that is wider than the screen must scroll by keyboard, too.
    if (element) element.tabIndex = element.scrollWidth > element.clientWidth ? 0 : -1;
  }, [narrow, props.rows]);
  return (
    <div ref={frame} class="table-scroll" role="region" aria-label={props.caption}>
      <table class="table">
        <caption class="hidden">{props.caption}</caption>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th key={column.title} scope="col" class={cellClass(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={props.keyOf(row)}>
              {props.columns.map((column) => (
                <td key={column.title} class={cellClass(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function cellClass<Row>(column: Column<Row>): string | undefined {
  if (column.isNumber) return "number";
  return column.isWide ? "wide" : undefined;
}
