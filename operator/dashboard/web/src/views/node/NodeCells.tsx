import { useLayoutEffect, useRef } from "preact/hooks";

import { queue } from "../../app/live/store";
import { theme } from "../../app/look/theme";
import { RectBatch } from "../../draw/base/batch";
import { buildPatterns } from "../../draw/base/patterns";
import { themeOf } from "../../draw/base/theme";
import { addRun } from "../../draw/map/fills";
import { fillOf } from "../../draw/map/look";
import { cellRows } from "../../draw/node/cells";
import { Card } from "../../parts/Card";
import { Name } from "../../parts/Text";
import type { NodeState } from "../../wire/cluster";

/** Size of the strip, in CSS pixels. */
const STRIP = { width: 520, height: 30, gap: 6 } as const;

/** The devices of the node as the map draws them, with their counts. */
export function NodeCells({ node }: { readonly node: NodeState }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const rows = cellRows(node);
  const look = theme.value;
  useLayoutEffect(() => {
    const frame = requestAnimationFrame(() => canvas.current && drawCells(canvas.current, node));
    return () => cancelAnimationFrame(frame);
  }, [node, look]);
  if (rows.length === 0) {
    return (
      <Card title="Devices">
        <p class="card-text dim">This node has no devices.</p>
      </Card>
    );
  }
  return (
    <Card title="Devices">
      <div class="node-cells">
        <canvas ref={canvas} aria-hidden="true" style={{ height: `${rows.length * (STRIP.height + STRIP.gap) - STRIP.gap}px` }} />
        {rows.map(({ counts }) => (
          <p key={counts.device}>
            <strong>
              {counts.free} of {counts.total}
            </strong>{" "}
            <Name text={counts.device} /> free; jobs hold {counts.jobs}, pods of no job {counts.others}, kept {counts.kept}
          </p>
        ))}
        <p class="dim">A cell is a count, not a physical device.</p>
      </div>
    </Card>
  );
}

function drawCells(canvas: HTMLCanvasElement, node: NodeState): void {
  const [ratio, rows, context] = [devicePixelRatio, cellRows(node), canvas.getContext("2d")];
  if (context === null) return;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  const colours = themeOf(canvas);
  const brush = { theme: colours, ratio, patterns: buildPatterns(context, colours, ratio) };
  const batch = new RectBatch();
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, canvas.width, canvas.height);
  rows.forEach((row, index) => {
    const rect = { x: 0, y: Math.round(index * (STRIP.height + STRIP.gap) * ratio), width: canvas.width, height: Math.round(STRIP.height * ratio) };
    for (const run of row.runs) {
      addRun(batch, brush, run, fillOf(run, { by: "gang", jobs: queue.jobs.peek(), now: 0 }, colours), rect, row.cells);
    }
  });
  batch.flush(context);
}
