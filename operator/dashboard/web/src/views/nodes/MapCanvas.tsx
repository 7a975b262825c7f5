import { useEffect, useRef, useState } from "preact/hooks";

import { useShortcuts } from "../../app/page/keys";
import { ZOOM_STEP } from "../../draw/map/zoom";
import { ZoomButtons } from "../../parts/ZoomButtons";
import { GangCard } from "./GangCard";
import { MapTip } from "./MapTip";
import { MapController } from "./map-controller";
import { followAll } from "./map-follow";
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
          <ZoomButtons
            whole="Show the whole map"
            zoomIn={() => controller.zoom(ZOOM_STEP)}
            zoomOut={() => controller.zoom(1 / ZOOM_STEP)}
            showWhole={() => controller.fit()}
          />
          <MapTip controller={controller} />
          <GangCard onShow={(gang) => controller.show(gangNodes.peek().get(gang) ?? [])} />
        </>
      )}
    </div>
  );
}
