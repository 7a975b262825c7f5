import { session } from "../../app/live/store";
import { command } from "../../app/text/shell-quote";
import { Card } from "../../parts/Card";
import { Command } from "../../parts/Copy";
import type { JobRef } from "../../wire/cluster";

/** Commands about the job, to copy into a terminal. The page itself changes nothing. */
export function Commands({ job, phase }: { readonly job: JobRef; readonly phase: string | undefined }) {
  const context = session.value?.context;
  const trellis = (verb: string, ...more: readonly string[]): string => {
    const where = ["-n", job.namespace, ...(context ? ["--context", context] : [])];
    return command("trellis", verb, argumentOf(job.name), ...more, ...where);
  };
  const isExternal = argumentOf(job.name) !== job.name;
  const isSuspended = phase === "Suspended";
  const hasEnded = phase === "Complete" || phase === "Failed";
  const isPlaced = phase === "Running" || phase === "Starting" || hasEnded;
  return (
    <Card title="Commands">
      <div class="commands">
        <Command text={trellis("explain")} />
        {!isExternal && (
          <>
            <Command text={trellis("status", "-w")} />
            {isPlaced && <Command text={trellis("logs", "-f")} />}
            {isPlaced && <Command text={trellis("top")} />}
            {!hasEnded && (
              <Command text={trellis(isSuspended ? "resume" : "suspend", "--wait")} />
            )}
            <Command text={trellis("cancel", "--wait")} />
          </>
        )}
      </div>
    </Card>
  );
}

/** External pods are `podgroup/NAME` and `pod/NAME` on the command line. */
function argumentOf(name: string): string {
  return name.replace(/^(podgroup|pod)\./, "$1/");
}
