import { useLayoutEffect, useRef } from "preact/hooks";

import { queue } from "../../app/live/store";
import { formatUntil } from "../../app/text/format";
import { gangOfKey, gangTitle } from "../../draw/base/gang";
import type { CellHit } from "../../draw/layout/hit";
import { holders, startText, STATE_WORDS } from "../../draw/node/describe";
import { devicesOf, stateWord } from "../../draw/node/devices";
import { domainText } from "../../draw/node/domains";
import { nodeName } from "../../draw/node/order";
import { Name, Text } from "../../parts/Text";
import type { MapController } from "./map-controller";

/** Distance between the tip and the node, in CSS pixels. */
const DISTANCE = 8;

/** The pointed node in words, beside it. Screen readers get the same text from the live region. */
export function MapTip({ controller }: { readonly controller: MapController }) {
  const box = useRef<HTMLDivElement>(null);
  const pointed = controller.pointed.value;
  const scene = controller.scene.value;
  const node = pointed === undefined ? undefined : scene?.nodes[pointed.hit.position];

  useLayoutEffect(() => {
    const element = box.current;
    const room = element?.parentElement;
    if (!element || !room || !pointed) return;
    const { tile } = pointed;
    const isRoomBelow = tile.y + tile.height + DISTANCE + element.offsetHeight <= room.clientHeight;
    const top = isRoomBelow ? tile.y + tile.height + DISTANCE : tile.y - DISTANCE - element.offsetHeight;
    const left = Math.min(Math.max(tile.x + tile.width / 2 - element.offsetWidth / 2, 4), room.clientWidth - element.offsetWidth - 4);
    element.style.transform = `translate(${Math.round(left)}px, ${Math.round(Math.max(top, 4))}px)`;
  });

  if (node === undefined || pointed === undefined || scene === undefined) return null;
  const fit = scene.fits?.[pointed.hit.position];
  const place = domainText(node);
  return (
    <div class="map-tip" ref={box} aria-hidden="true">
      <div class="map-tip-head">
        <strong>
          <Name text={nodeName(node)} />
        </strong>
        <span>{stateWord(node)}</span>
      </div>
      {devicesOf(node).map((counts) => (
        <div key={counts.device}>
          {counts.free} of {counts.total} <Name text={counts.device} /> free
        </div>
      ))}
      {place !== "" && (
        <div class="dim">
          <Name text={place} />
        </div>
      )}
      {pointed.hit.cell ? <CellText hit={pointed.hit.cell} now={scene.now} /> : <HolderText texts={holders(node, scene.now)} />}
      {pointed.hit.cell &&
        (node.reservedFor ?? []).slice(0, 2).map((hold) => (
          <div key={gangTitle(hold)}>
            reserved for <Name text={gangTitle(hold)} />
            {startText(hold, scene.now)}
          </div>
        ))}
      {fit && fit.why !== "" && (
        <div class="map-tip-fit">
          {fit.kind === "off" ? "does not fit: " : "fits "}
          <Text text={fit.why} max={160} />
        </div>
      )}
    </div>
  );
}

function CellText({ hit, now }: { readonly hit: CellHit; readonly now: Date }) {
  const { run } = hit;
  if (run.gang === undefined) {
    return (
      <div class="map-tip-cell">
        {run.devices} {STATE_WORDS[run.state]}
      </div>
    );
  }
  const job = queue.jobs.value.get(run.gang);
  const end = job?.expectedEnd === undefined ? undefined : formatUntil(job.expectedEnd, now);
  return (
    <div class="map-tip-cell">
      {run.devices} of <Name text={gangTitle(gangOfKey(run.gang))} />
      {run.state !== "running" && ` (${run.state})`}
      {job && (
        <div class="dim">
          queue <Name text={job.queue} />
          {end !== undefined && (end === "now" ? ", ends now" : `, ends in ${end}`)}
        </div>
      )}
    </div>
  );
}

function HolderText({ texts }: { readonly texts: readonly string[] }) {
  if (texts.length === 0) return null;
  return (
    <div class="map-tip-cell">
      {texts.slice(0, 4).map((text) => (
        <div key={text}>
          <Text text={text} max={100} />
        </div>
      ))}
    </div>
  );
}
