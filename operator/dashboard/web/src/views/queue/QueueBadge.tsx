import { Badge } from "../../parts/Badge";
import { Text } from "../../parts/Text";
import type { QueueState } from "../../wire/cluster";

/** Whether a queue starts jobs. An active queue without a remark has no badge. */
export function QueueBadge({ queue }: { readonly queue: QueueState }) {
  if (queue.active === undefined) return null;
  const isBypassed = queue.reason === "QuotaBypassed";
  if (queue.active && !isBypassed) return null;
  return (
    <>
      <Badge tone={queue.active ? "waiting" : "bad"} icon={queue.active ? "warning" : "stop"}>
        <Text text={queue.reason ?? "Inactive"} max={60} />
      </Badge>{" "}
      {queue.message && <Text text={queue.message} max={300} />}
    </>
  );
}
