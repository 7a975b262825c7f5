import { useComputed } from "@preact/signals";
import type { ComponentChildren } from "preact";

import { nodes } from "../../app/live/store";
import { urls } from "../../app/page/route";
import { type JobSummary, summarizeDevices } from "../../app/queue/summary";
import { countOf, formatCount } from "../../app/text/format";
import { Name } from "../../parts/Text";
import { Age } from "../../parts/Time";
import { JobLink } from "../../parts/links";

/** The cluster in four numbers. */
export function Tiles({ summary, isLoading }: { readonly summary: JobSummary; readonly isLoading: boolean }) {
  const { oldest } = summary;
  return (
    <ul class="tiles" aria-label="The cluster in numbers">
      <Tile
        term="Placed"
        href={urls.jobs({ state: "running" })}
        value={isLoading ? "–" : formatCount(summary.running)}
        note={`hold ${countOf(summary.heldGpus, "GPU")}`}
      />
      <Tile
        term="Pending"
        href={urls.jobs({ state: "waiting" })}
        value={isLoading ? "–" : formatCount(summary.waiting)}
        note={`want ${countOf(summary.waitingGpus, "GPU")}`}
      />
      <Tile
        term="Longest wait"
        value={oldest ? <Age time={oldest.since} /> : "–"}
        note={
          oldest ? (
            <JobLink job={{ namespace: oldest.metadata.namespace ?? "", name: oldest.metadata.name }} />
          ) : (
            "nothing waits"
          )
        }
      />
      <FreeTile />
    </ul>
  );
}

/** Free devices, as the scheduler counts them on nodes. Users without the right see no tile. */
function FreeTile() {
  const devices = useComputed(() => summarizeDevices(nodes.nodes.value.values())).value;
  const [main] = devices;
  if (!main) return null;
  const blocked = main.free - main.usable;
  return (
    <Tile
      term="Free"
      href={urls.nodes()}
      value={
        <>
          {formatCount(main.usable)} <small>of {formatCount(main.all)}</small>
        </>
      }
      note={
        <>
          <Name text={main.resource} />
          {blocked > 0 && `, ${formatCount(blocked)} more on nodes that take no pods`}
        </>
      }
    />
  );
}

function Tile(props: {
  readonly term: string;
  readonly value: ComponentChildren;
  readonly note: ComponentChildren;
  readonly href?: string;
}) {
  return (
    <li class="tile">
      <div class="tile-term">{props.href ? <a href={props.href}>{props.term}</a> : props.term}</div>
      <div class="tile-value">{props.value}</div>
      <div class="tile-note">{props.note}</div>
    </li>
  );
}
