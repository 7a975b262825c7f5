import { useEffect, useRef, useState } from "preact/hooks";

import { useShortcuts } from "../../app/keys";
import { ZOOM_STEP } from "../../draw/zoom";
import { GangCard } from "./GangCard";
import { MapController } from "./map-controller";
import { followAll } from "./map-follow";
import { MapTip } from "./MapTip";
import { gangNodes } from "./model";

/** The map with its buttons, the tip at the pointer, and the card of the chosen job. */
export function MapCanvas() {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [controller, setController] = useState<MapController | undefined>(undefined);

  useEffect(() => {
    if (canvas.current === null || frame.current === null) return;
    const made = new MapController(canvas.current);
    const stop = followAll(frame.current, made);
    setController(made);
    return () => {
      stop();
      made.stop();
    };
  }, []);

  useShortcuts("Map of nodes", [
    { keys: "+", label: "Zoom in", run: () => controller?.zoom(ZOOM_STEP) },
    { keys: "-", label: "Zoom out", run: () => controller?.zoom(1 / ZOOM_STEP) },
    { keys: "0", label: "Show the whole map", run: () => controller?.fit() },
  ]);

  return (
    <div class="map-frame" ref={frame}>
      <div
        class="map-canvas"
        role="application"
        aria-label="Cluster map"
        aria-describedby="map-keys"
        tabIndex={0}
        onKeyDown={(event) => {
          if (controller?.key(event)) event.preventDefault();
        }}
        onBlur={() => controller?.blur()}
      >
        <canvas ref={canvas} aria-hidden="true" />
      </div>
      <p id="map-keys" class="hidden">
        Arrow keys walk from node to node, Page Up and Page Down from domain to domain. Enter opens the page of the node,
        Space chooses its next job, Escape ends the choice. T shows the same nodes as a table.
      </p>
      {controller && (
        <>
          <div class="map-zoom">
            <ZoomButton label="Zoom in" keys="+" text="+" run={() => controller.zoom(ZOOM_STEP)} />
            <ZoomButton label="Zoom out" keys="-" text="−" run={() => controller.zoom(1 / ZOOM_STEP)} />
            <ZoomButton label="Show the whole map" keys="0" text="⤢" run={() => controller.fit()} />
          </div>
          <MapTip controller={controller} />
          <GangCard onShow={(gang) => controller.show(gangNodes.peek().get(gang) ?? [])} />
        </>
      )}
    </div>
  );
}

function ZoomButton(props: { readonly label: string; readonly keys: string; readonly text: string; readonly run: () => void }) {
  return (
    <button type="button" aria-label={props.label} title={`${props.label} (${props.keys})`} onClick={props.run}>
      {props.text}
    </button>
  );
}
