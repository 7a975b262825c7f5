import { useComputed } from "@preact/signals";
import type { ComponentChildren } from "preact";

import { describeCause } from "../../app/job/ended-attempts";
import { describeAttemptsProblem, useEndedAttempts } from "../../app/live/ended-attempts";
import { nodesFreshness } from "../../app/live/freshness";
import { nodes, session } from "../../app/live/store";
import type { IconName } from "../../app/look/icons";
import { urls } from "../../app/page/route";
import { countBadNodes, quietText, recentEnds, type BadNodes } from "../../app/queue/on-call";
import { now } from "../../app/server/clock";
import { countOf, formatCount } from "../../app/text/format";
import { Icon } from "../../parts/Icon";
import { Name, Text } from "../../parts/Text";
import { Ago } from "../../parts/Time";
import { JobLink } from "../../parts/links";
import type { EndedAttempt } from "../../wire/attempt";

const HOUR = 3_600_000;
/** The last hour moves on in steps, so that the strip is not drawn each second. */
const STEP_MS = 15_000;

/**
 * What broke, for users who may see all namespaces. The head of the page tells whether a scheduler leads and
 * how old the data are, and a tile below tells the longest wait.
 */
export function OnCall() {
  const polled = useEndedAttempts(undefined);
  const since = useComputed(() => Math.floor(now.value.getTime() / STEP_MS) * STEP_MS - HOUR).value;
  const bad = useComputed(() => countBadNodes(nodes.nodes.value.values())).value;
  const ends = recentEnds(polled.answer?.attempts ?? [], since);
  const problem = describeAttemptsProblem(polled);
  const areNodesKnown = session.value?.may.nodes === true && nodesFreshness.value.state === "fresh";
  const areAttemptsKnown = polled.answer !== undefined && problem === undefined;
  const isQuiet = bad.count + ends.failed.length + ends.preempted.length === 0;
  const quiet = isQuiet ? quietText(areNodesKnown, areAttemptsKnown) : undefined;
  return (
    <section class="on-call" aria-label="What broke">
      {quiet !== undefined && <Line icon="check">{quiet}</Line>}
      {bad.count > 0 && <BadNodesLine bad={bad} />}
      <Ends icon="cross" verb={["failed", "failed"]} ends={ends.failed} />
      <Ends icon="swap" verb={["was preempted", "were preempted"]} ends={ends.preempted} />
      {problem !== undefined && (
        <Line icon="info">
          <Text text={problem} max={300} />
        </Line>
      )}
    </section>
  );
}

function Line({ icon, children }: { readonly icon: IconName; readonly children: ComponentChildren }) {
  return (
    <p class={`on-call-line on-call-${icon}`}>
      <Icon name={icon} />
      <span>{children}</span>
    </p>
  );
}

function BadNodesLine({ bad }: { readonly bad: BadNodes }) {
  return (
    <Line icon="warning">
      <a href={urls.nodes({ view: "table", state: "bad" })}>
        {countOf(bad.count, "node is bad", "nodes are bad")}
      </a>{" "}
      (
      {bad.reasons.map(([reason, count], place) => (
        <span key={reason}>
          {place > 0 && ", "}
          <Name text={reason} /> {formatCount(count)}
        </span>
      ))}
      ), {bad.jobs === 0 ? "with no job" : `with pods of ${countOf(bad.jobs, "job")}`}
    </Line>
  );
}

/** Attempts with one kind of end in the last hour, and the newest of them. */
function Ends(props: { readonly icon: IconName; readonly verb: readonly [one: string, more: string]; readonly ends: readonly EndedAttempt[] }) {
  const { icon, verb, ends } = props;
  const [last] = ends;
  if (last === undefined) return null;
  const cause = describeCause(last);
  const [one, more] = verb;
  return (
    <Line icon={icon}>
      <a href={urls.timeline({ from: "-1h", to: "15m" })}>{countOf(ends.length, `attempt ${one}`, `attempts ${more}`)}</a> in the last hour,
      the last of <JobLink job={{ namespace: last.metadata.namespace ?? "", name: last.job }} /> <Ago time={last.ended} />
      {cause !== "" && (
        <>
          : <Text text={cause} max={160} />
        </>
      )}
    </Line>
  );
}
