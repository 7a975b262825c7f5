import { holderLabel, readUseBar } from "../../app/policy/quota-use";
import { countOf } from "../../app/text/format";
import { Name } from "../../parts/Text";
import type { QuotaHolder, QuotaPolicy } from "../../wire/policy";

/** One bar for each limit and holder. The holders with the least room stand first, as in the status. */
export function QuotaBars({ policy, most }: { readonly policy: QuotaPolicy; readonly most: number }) {
  const holders = policy.status?.holders ?? [];
  const all = policy.status?.holderCount ?? holders.length;
  const shown = holders.slice(0, most);
  if (holders.length === 0) return <p class="dim">No usage is known yet.</p>;
  return (
    <>
      <ul class="policy-holders">
        {shown.map((holder) => (
          <li key={holder.requester ?? " subject"}>
            <Holder holder={holder} policy={policy} />
          </li>
        ))}
      </ul>
      {all > shown.length && (
        <p class="dim">
          {countOf(all - shown.length, "more holder")} with more room
        </p>
      )}
    </>
  );
}

function Holder({ holder, policy }: { readonly holder: QuotaHolder; readonly policy: QuotaPolicy }) {
  return (
    <>
      {holder.requester !== undefined && (
        <h3>
          <Name text={holderLabel(holder)} />
        </h3>
      )}
      {holder.uses.map((use) => {
        const bar = readUseBar(use, policy.limits);
        return (
          <div key={use.limit} class={bar.isFull ? "policy-use is-full" : "policy-use"}>
            <span class="policy-use-label">
              <Name text={bar.label} />
            </span>
            <div class="policy-use-bar" aria-hidden="true">
              <div style={{ width: `${bar.percent}%` }} />
            </div>
            <span class="policy-use-numbers">
              <b>
                <Name text={bar.used} />
              </b>{" "}
              of <Name text={bar.max} />
              {bar.isFull && <span class="waits"> full</span>}
            </span>
          </div>
        );
      })}
    </>
  );
}
