import { isBad } from "../../app/queue/on-call";
import { urls } from "../../app/page/route";
import { now } from "../../app/server/clock";
import { holders } from "../../draw/node/describe";
import { devicesOf, stateWord } from "../../draw/node/devices";
import { domainText } from "../../draw/node/domains";
import { nodeName } from "../../draw/node/order";
import { Empty } from "../../parts/Banner";
import { Name, Text } from "../../parts/Text";
import { VirtualRows } from "../../parts/VirtualRows";
import type { NodeState } from "../../wire/cluster";
import { fitOf, isBadOnly, litGangs, sortedNodes } from "./model";

/** Height of a row, in CSS pixels. `style/map.css` has the same number. */
const ROW_HEIGHT = 30;

/** The nodes as `trellis nodes` lists them. Only the rows in view are in the document. */
export function NodeTable() {
  const rows = selectRows(isBadOnly.value ? sortedNodes.value.filter(isBad) : sortedNodes.value, litGangs.value);
  if (rows.length === 0 && isBadOnly.value) return <Empty icon="check" title="No node is bad." />;
  const byName = new Map(rows.map((node) => [nodeName(node), node]));
  const hasPlaces = rows.some((node) => (node.domains ?? []).length > 0);
  const fit = fitOf.value;
  const columns = ["Node", "State", "Free", "Devices", ...(hasPlaces ? ["Where"] : []), ...(fit ? ["Fits"] : []), "Held by"];
  const classes = `node-table ${hasPlaces ? "has-places" : ""} ${fit ? "has-fit" : ""}`;
  return (
    <div class="node-table-scroll">
      <div class={classes} role="table" aria-label="Nodes" aria-rowcount={rows.length + 1}>
        <div class="node-row node-head" role="row" aria-rowindex={1}>
          {columns.map((column) => (
            <span key={column} role="columnheader">
              {column}
            </span>
          ))}
        </div>
        <VirtualRows
          keys={[...byName.keys()]}
          rowHeight={ROW_HEIGHT}
          row={(name) => {
            const node = byName.get(name);
            return node === undefined ? null : <NodeRow node={node} hasPlaces={hasPlaces} />;
          }}
        />
      </div>
    </div>
  );
}

/** With a chosen job or queue, the table has only its nodes. */
function selectRows(nodes: readonly NodeState[], gangs: ReadonlySet<string> | undefined): readonly NodeState[] {
  if (gangs === undefined) return nodes;
  return nodes.filter((node) => [...(node.jobs ?? []), ...(node.keptFor ?? []), ...(node.reservedFor ?? [])].some((hold) => gangs.has(`${hold.namespace}/${hold.name}`)));
}

function NodeRow({ node, hasPlaces }: { readonly node: NodeState; readonly hasPlaces: boolean }) {
  const devices = devicesOf(node);
  const fit = fitOf.value?.(node);
  const texts = holders(node, now.value);
  return (
    <div class="node-row">
      <span role="cell">
        <a href={urls.node(nodeName(node))} data-row="">
          <Name text={nodeName(node)} />
        </a>
      </span>
      <span role="cell" class={node.schedulable ? undefined : "bad"}>
        {stateWord(node)}
      </span>
      <span role="cell" class="number">
        {devices.map((counts) => `${counts.free}/${counts.total}`).join(",") || "-"}
      </span>
      <span role="cell">
        <Name text={devices.map((counts) => counts.device).join(",") || "-"} />
      </span>
      {hasPlaces && (
        <span role="cell">
          <Name text={domainText(node)} />
        </span>
      )}
      {fit && (
        <span role="cell" title={fit.why}>
          {fit.kind === "off" ? "no: " : fit.kind === "short" ? "short: " : ""}
          <Text text={fit.kind === "fits" ? fit.brief : fit.why} max={120} />
        </span>
      )}
      <span role="cell" title={texts.join(", ").slice(0, 600)}>
        <Text text={texts.join(", ")} max={300} />
      </span>
    </div>
  );
}
