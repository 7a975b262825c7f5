import { useLayoutEffect, useRef } from "preact/hooks";

import { theme } from "../../app/look/theme";
import { RectBatch } from "../../draw/base/batch";
import { buildPatterns } from "../../draw/base/patterns";
import { themeOf } from "../../draw/base/theme";
import { TIME_STEPS } from "../../draw/base/time-left";
import { addRun } from "../../draw/map/fills";
import { fillOf, type ColourBy } from "../../draw/map/look";
import { CELL_STATES, type CellState } from "../../draw/node/cells";
import { STATE_WORDS } from "../../draw/node/describe";
import { Legend, type LegendEntry } from "../../parts/Legend";
import { colourBy, fitQuery } from "./model";

/** Size of a sample, in CSS pixels. */
const SAMPLE = { width: 24, height: 14 } as const;

const COLOUR_TEXT: Readonly<Record<ColourBy, string>> = {
  gang: "A colour is a job, by its name. Two jobs may share one of the 12 colours: point at a cell for the job.",
  queue: "A colour is a queue, by its name. Two queues may share one of the 12 colours.",
  state: "A colour is a state, as is its pattern.",
  time: "A colour is the time until the job is expected to end, which is no promise.",
};

/** Says what cells, patterns, frames and colours mean. */
export function MapLegend() {
  const by = colourBy.value;
  const states: readonly LegendEntry[] = CELL_STATES.map((state) => ({
    sample: <Sample state={state} by={by} />,
    text: STATE_WORDS[state],
  }));
  const frames: readonly LegendEntry[] = [
    { sample: <span class="sample-frame sample-reserved" />, text: "reserved for a waiting job" },
    { sample: <span class="sample-frame sample-partly" />, text: "thick frame: a node with some, not all, devices free" },
    { sample: <span class="sample-frame sample-bad" />, text: "crossed: a node that takes no pods" },
  ];
  const lens: readonly LegendEntry[] = [
    { sample: <span class="sample-frame sample-fits" />, text: "fits: the node has room for a pod" },
    { sample: <span class="sample-frame sample-short" />, text: "fits only until a reservation begins" },
  ];
  const times = TIME_STEPS.map((step, index) => ({ sample: <span class={`sample-time sample-time-${index}`} />, text: step.label }));
  return (
    <section class="sums map-legend">
      <h2>Legend</h2>
      <p>A cell is a count, not a physical device: the scheduler knows how many devices a job holds, not which.</p>
      <Legend label="Cells and frames" entries={[...states, ...frames, ...(fitQuery.value ? lens : [])]} />
      <p>{COLOUR_TEXT[by]}</p>
      {by === "time" && <Legend label="Time left" entries={times} />}
    </section>
  );
}

/** A cell as the map draws it. */
function Sample({ state, by }: { readonly state: CellState; readonly by: ColourBy }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const look = theme.value;
  useLayoutEffect(() => {
    const frame = requestAnimationFrame(() => canvas.current && drawSample(canvas.current, state, by));
    return () => cancelAnimationFrame(frame);
  }, [state, by, look]);
  return <canvas ref={canvas} class="map-sample" />;
}

function drawSample(canvas: HTMLCanvasElement, state: CellState, by: ColourBy): void {
  const ratio = devicePixelRatio;
  [canvas.width, canvas.height] = [SAMPLE.width * ratio, SAMPLE.height * ratio];
  const context = canvas.getContext("2d");
  if (context === null) return;
  const colours = themeOf(canvas);
  const brush = { theme: colours, ratio, patterns: buildPatterns(context, colours, ratio) };
  const hasGang = state !== "other" && state !== "free" && state !== "blocked";
  // Any gang serves as a sample; with other colourings, cells of an unknown job have a neutral colour.
  const run = { state, gang: hasGang && by === "gang" ? "sample/a" : undefined, first: 0, cells: 2, devices: 2 };
  const fill = fillOf(run, { by, jobs: new Map(), now: 0 }, colours);
  const batch = new RectBatch();
  context.fillStyle = colours.tile;
  context.fillRect(0, 0, canvas.width, canvas.height);
  addRun(batch, brush, run, fill, { x: 0, y: 0, width: canvas.width, height: canvas.height }, 2);
  batch.flush(context);
}
