import { effect, useSignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";

import { useShortcuts } from "../../app/page/keys";
import { now } from "../../app/server/clock";
import type { Size } from "../../draw/base/geometry";
import type { TimelineRows } from "../../draw/timeline/rows";
import { ZoomButtons } from "../../parts/ZoomButtons";
import { followSize, followTheme } from "../../parts/follow-canvas";
import { TimelineCard } from "./TimelineCard";
import { TimelineTip } from "./TimelineTip";
import { curve, urlWindow } from "./model";
import { TimelineController } from "./timeline-controller";

/** The timeline with its buttons, the tip at the pointer, and the card of the chosen job. */
export function TimelineCanvas({ rows }: { readonly rows: TimelineRows }) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [controller, setController] = useState<TimelineController | undefined>(undefined);
  const size = useSignal<Size>({ width: 1, height: 1 });

  useEffect(() => {
    const box = frame.current;
    if (canvas.current === null || box === null) return;
    const made = new TimelineController(canvas.current, rows, curve.peek(), now.peek().getTime(), urlWindow.peek());
    size.value = { width: box.clientWidth, height: box.clientHeight };
    const stops = [
      followSize(box, (next) => (size.value = next)),
      effect(() => made.resize(size.value, devicePixelRatio)),
      followTheme(box, (theme) => made.setTheme(theme)),
      effect(() => made.setTime(curve.value, now.value.getTime())),
      effect(() => made.followUrl(urlWindow.value)),
    ];
    setController(made);
    return () => {
      for (const stop of stops) stop();
      made.stop();
    };
  }, []);

  useEffect(() => controller?.setRows(rows), [controller, rows]);

  useShortcuts("Timeline", [
    { keys: "+", label: "Zoom in", run: () => controller?.step(1) },
    { keys: "-", label: "Zoom out", run: () => controller?.step(-1) },
    { keys: "0", label: "Show 24 hours back and what is foreseen", run: () => controller?.reset() },
  ]);

  return (
    <div class="timeline-frame" ref={frame}>
      <div
        class="map-canvas"
        role="application"
        aria-label="Timeline of jobs"
        aria-describedby="timeline-keys"
        tabIndex={0}
        onKeyDown={(event) => {
          if (controller?.key(event)) event.preventDefault();
        }}
      >
        <canvas ref={canvas} aria-hidden="true" />
      </div>
      <p id="timeline-keys" class="hidden">
        Up and Down walk from job to job, Left and Right move time. Enter opens the page of the job, Escape ends the
        choice. T shows the same jobs as a table.
      </p>
      {controller && (
        <>
          <ZoomButtons
            whole="Show 24 hours back"
            zoomIn={() => controller.step(1)}
            zoomOut={() => controller.step(-1)}
            showWhole={() => controller.reset()}
          />
          <TimelineTip controller={controller} />
          <TimelineCard controller={controller} />
        </>
      )}
    </div>
  );
}
