/** Geometry of a quota bar: one resource of one flavor of a queue. Pure. */

import type { QueueResource, QueueState } from "../../wire/cluster";
import { parseQuantity } from "../text/format";

/** Amounts of a quota bar, as numbers. */
export interface QuotaAmounts {
  readonly nominal: number;
  readonly used: number;
  readonly borrowed: number;
  readonly lendable: number;
  readonly waiting: number;
}

/** Parts of a quota bar, in percent of its width. */
export interface QuotaBarParts {
  /** The frame: nominal quota. */
  readonly nominal: number;
  /** Used within the quota. */
  readonly own: number;
  /** Used beyond the quota, from the end of `own`. */
  readonly borrowed: number;
  /** Begin and width of what other queues may borrow. */
  readonly lendableStart: number;
  readonly lendable: number;
  readonly waiting: number;
  /** True: more waits than the bar can show. */
  readonly isWaitingCut: boolean;
}

const WIDTH = 100;
/** A little room at the right, so that a full bar is seen to end. */
const ROOM = 1.06;

/** Resources that are not devices. */
const NO_DEVICES = new Set(["cpu", "memory", "ephemeral-storage", "pods"]);

/** Returns the resources that matter: devices, and all others only if the queue has no devices. */
export function mainResources(queue: QueueState): readonly QueueResource[] {
  const all = queue.resources ?? [];
  const devices = all.filter((row) => !NO_DEVICES.has(row.resource));
  return devices.length > 0 ? devices : boundedResources(queue);
}

/** Returns all resources except pods without a limit, which say nothing. */
export function boundedResources(queue: QueueState): readonly QueueResource[] {
  return (queue.resources ?? []).filter((row) => row.resource !== "pods" || row.available !== undefined);
}

/** A row of a queue with its amounts. */
export interface QuotaRow {
  readonly row: QueueResource;
  readonly amounts: QuotaAmounts;
}

/**
 * Reads the amounts of some rows of a queue.
 *
 * A pending job has no flavor yet, so what waits stands once, at the first flavor of its resource.
 */
export function readQuotaRows(queue: QueueState, rows: readonly QueueResource[]): QuotaRow[] {
  const pending = new Map((queue.pendingResources ?? []).map((own) => [own.resource, own.amount]));
  return rows.map((row) => {
    const waiting = pending.get(row.resource);
    pending.delete(row.resource);
    return {
      row,
      amounts: {
        nominal: parseQuantity(row.nominalQuota) ?? 0,
        used: parseQuantity(row.used) ?? 0,
        borrowed: parseQuantity(row.borrowed) ?? 0,
        lendable: parseQuantity(row.lendable) ?? 0,
        waiting: parseQuantity(waiting) ?? 0,
      },
    };
  });
}

/** Returns the amount at the right end of a bar that shows all of these. Waiting jobs may go beyond it. */
export function barScale(all: readonly QuotaAmounts[]): number {
  return Math.max(0, ...all.map((own) => Math.max(own.nominal, own.used, own.lendable))) * ROOM;
}

/** Computes the parts of a bar. */
export function quotaBarParts(amounts: QuotaAmounts, scale: number): QuotaBarParts {
  const percent = (amount: number): number =>
    scale > 0 ? Math.min(Math.max((amount / scale) * WIDTH, 0), WIDTH) : 0;
  const borrowed = Math.min(Math.max(amounts.borrowed, 0), amounts.used);
  const end = percent(amounts.used);
  const own = percent(amounts.used - borrowed);
  const lendableStart = percent(Math.max(amounts.nominal - amounts.lendable, 0));
  return {
    nominal: percent(amounts.nominal),
    own,
    borrowed: end - own,
    lendableStart,
    lendable: percent(Math.max(amounts.nominal, amounts.lendable)) - lendableStart,
    waiting: percent(amounts.waiting),
    isWaitingCut: amounts.waiting > scale,
  };
}
