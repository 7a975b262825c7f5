/** Keeps the map current: size of the window, theme, nodes, and choices of the URL. */

import { effect, signal, untracked } from "@preact/signals";

import { nodes } from "../../app/live/store";
import { query } from "../../app/page/route";
import type { Size } from "../../draw/base/geometry";
import { LayoutKeeper } from "../../draw/layout/layout-keeper";
import { buildScene } from "../../draw/map/scene";
import { followSize, followTheme } from "../../parts/follow-canvas";
import type { MapController } from "./map-controller";
import { fitOf, litGangs, look, sortedNodes } from "./model";

/** Keeps the map current until the returned function is called. */
export function followAll(frame: HTMLElement, controller: MapController): () => void {
  const size = signal<Size>({ width: frame.clientWidth, height: frame.clientHeight });
  const stops = [
    followSize(frame, (next) => (size.value = next)),
    followTheme(frame, (next) => controller.setTheme(next)),
    effect(() => controller.resize(size.value, devicePixelRatio)),
    followScene(() => size.value, controller),
    effect(() => controller.light(litGangs.value)),
    effect(() => {
      const [at, zoom] = [query.value.get("at") ?? undefined, query.value.get("zoom") ?? undefined];
      untracked(() => controller.followUrl(at, zoom));
    }),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

function followScene(size: () => Size, controller: MapController): () => void {
  const keeper = new LayoutKeeper();
  return effect(() => {
    const layout = keeper.layoutOf(sortedNodes.value, size());
    const context = look.value;
    const scene = buildScene({ layout, nodes: nodes.nodes.value, look: context, now: new Date(context.now), fitOf: fitOf.value });
    untracked(() => controller.setScene(scene));
  });
}
