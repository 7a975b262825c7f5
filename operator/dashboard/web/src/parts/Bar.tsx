import { type QuotaAmounts, quotaBarParts } from "../app/queue/quota-bar";
import { countOf, formatAmount, resourceLabel } from "../app/text/format";
import type { QueueResource } from "../wire/cluster";
import { Name } from "./Text";

/** One resource of one flavor of a queue: a bar, and its numbers. */
export function QuotaBar(props: {
  readonly row: QueueResource;
  readonly amounts: QuotaAmounts;
  readonly scale: number;
}) {
  const { row, amounts, scale } = props;
  const parts = quotaBarParts(amounts, scale);
  const isUnlimited = row.available === undefined;
  const amount = (quantity: string): string => formatAmount(row.resource, quantity);
  return (
    <div class="quota">
      <div class="quota-name">
        <Name text={resourceLabel(row.resource, row.flavor)} />
      </div>
      <div class={isUnlimited && amounts.nominal === 0 ? "quota-bar is-unlimited" : "quota-bar"} aria-hidden="true">
        {parts.waiting > 0 && (
          <div
            class={parts.isWaitingCut ? "quota-waiting is-cut" : "quota-waiting"}
            style={{ width: `${parts.waiting}%` }}
          />
        )}
        <div class="quota-track">
          <div class="quota-own" style={{ width: `${parts.own}%` }} />
          <div class="quota-borrowed" style={{ left: `${parts.own}%`, width: `${parts.borrowed}%` }} />
          {parts.nominal > 0 && <div class="quota-frame" style={{ width: `${parts.nominal}%` }} />}
        </div>
        {parts.lendable > 0 && (
          <div class="quota-lendable" style={{ left: `${parts.lendableStart}%`, width: `${parts.lendable}%` }} />
        )}
      </div>
      <div class="quota-numbers">
        <span>
          <b>{amount(row.used)}</b>
          {amounts.nominal > 0 ? <> of {amount(row.nominalQuota)}</> : " used"}
        </span>
        {amounts.borrowed > 0 && <span class="borrowed">{amount(row.borrowed)} borrowed</span>}
        {amounts.lendable > 0 && <span>{amount(row.lendable)} lendable</span>}
        <span>{isUnlimited ? "no limit" : `${amount(row.available ?? "0")} free by quota`}</span>
        {amounts.waiting > 0 && (
          <span class="waits">{formatAmount(row.resource, String(amounts.waiting))} wait</span>
        )}
      </div>
    </div>
  );
}

/** A part of a whole, with its own colour and pattern. */
export interface Segment {
  readonly name: string;
  readonly count: number;
  /** A class of `style/parts.css`: `segment-good`, `segment-excluded` and so on. */
  readonly kind: "used" | "good" | "waiting" | "bad" | "still" | "free";
}

/** Parts of a whole side by side, as long as their counts. */
export function SegmentBar({ segments, noun }: { readonly segments: readonly Segment[]; readonly noun: string }) {
  const all = segments.reduce((sum, segment) => sum + segment.count, 0);
  const label = segments.map((segment) => `${segment.name}: ${countOf(segment.count, noun)}`).join("; ");
  return (
    <div class="segments" role="img" aria-label={label}>
      {segments.map(
        (segment) =>
          segment.count > 0 && (
            <div
              key={segment.name}
              class={`segment segment-${segment.kind}`}
              style={{ width: `${(segment.count / all) * 100}%` }}
              title={`${segment.name}: ${countOf(segment.count, noun)}`}
            />
          ),
      )}
    </div>
  );
}
