import type { RankCell } from "../app/job/gang";
import { RANK_STATES } from "../app/job/gang";
import { Facts } from "./Card";
import { Icon } from "./Icon";
import { Name, Text } from "./Text";
import { Ago, Until } from "./Time";
import { NodeLink } from "./links";

/** One rank: its pod, node, exit code and last line. */
export function RankDetails({ cell, onClose }: { readonly cell: RankCell; readonly onClose: () => void }) {
  const { pod, missing } = cell;
  return (
    <section class="rank-details" aria-label={`Rank ${cell.rank}`}>
      <div class="rank-details-head">
        <span class={`rank rank-${cell.state}`} aria-hidden="true" />
        <strong>
          Rank {cell.rank}: {pod ? <Name text={pod.state} /> : RANK_STATES[cell.state]}
        </strong>
        <button type="button" class="icon-button" aria-label="Close" onClick={onClose}>
          <Icon name="cross" />
        </button>
      </div>
      <Facts
        facts={[
          pod && { term: "Pod", value: <Name text={pod.name} /> },
          pod?.node !== undefined && { term: "Node", value: <NodeLink name={pod.node} /> },
          { term: "Task group", value: <Name text={`${cell.group}, index ${cell.index}`} /> },
          pod && { term: "Ready", value: `${pod.ready} of ${pod.containers} containers` },
          pod && pod.restarts > 0 && { term: "Restarts", value: String(pod.restarts) },
          pod?.created !== undefined && { term: "Created", value: <Ago time={pod.created} /> },
          pod?.exitCode !== undefined && { term: "Exit code", value: String(pod.exitCode) },
          missing && { term: "Why", value: <Text text={missing.why} /> },
          missing?.notBefore !== undefined && { term: "Not before", value: <Until time={missing.notBefore} /> },
        ]}
      />
      {pod?.message && (
        <pre class="last-line">
          <Text text={pod.message} max={2_000} lines />
        </pre>
      )}
    </section>
  );
}
