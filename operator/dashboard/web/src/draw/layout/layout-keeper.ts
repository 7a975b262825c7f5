/** Keeps a layout until the nodes, their domains, or the shape of the window change. */

import type { NodeState } from "../../wire/cluster";
import type { Size } from "../base/geometry";
import { nodeName } from "../node/order";
import { headerFor, layOut, type MapLayout } from "./layout";

/** Steps of the aspect for each factor of two: a window that changes a little keeps its layout. */
const ASPECT_STEPS = 4;

/** A layout that is computed again only when it must be. */
export class LayoutKeeper {
  #layout: MapLayout | undefined;
  #nodes: readonly NodeState[] = [];
  #aspect = 0;
  #header = 0;

  /** Returns the layout of nodes, which are sorted as `trellis nodes` sorts. */
  layoutOf(nodes: readonly NodeState[], window: Size): MapLayout {
    const aspect = 2 ** (Math.round(Math.log2(Math.max(window.width, 1) / Math.max(window.height, 1)) * ASPECT_STEPS) / ASPECT_STEPS);
    const header = headerFor(nodes.length, Math.max(window.width * window.height, 1));
    const isSameShape = aspect === this.#aspect && header === this.#header;
    if (this.#layout === undefined || !isSameShape || !haveSamePlaces(this.#nodes, nodes)) {
      this.#layout = layOut(nodes, { aspect, header, before: isSameShape ? this.#layout?.shape : undefined });
    }
    [this.#nodes, this.#aspect, this.#header] = [nodes, aspect, header];
    return this.#layout;
  }
}

/** Returns true if two lists have the same nodes in the same domains. */
export function haveSamePlaces(before: readonly NodeState[], after: readonly NodeState[]): boolean {
  return before.length === after.length && before.every((node, index) => isSamePlace(node, after[index]));
}

function isSamePlace(before: NodeState, after: NodeState | undefined): boolean {
  if (before === after) return true;
  if (after === undefined || nodeName(before) !== nodeName(after)) return false;
  const [left, right] = [before.domains ?? [], after.domains ?? []];
  return left.length === right.length && left.every((entry, index) => entry.domain === right[index]?.domain && entry.level === right[index]?.level);
}
