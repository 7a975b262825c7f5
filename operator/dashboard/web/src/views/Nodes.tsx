import { useEffect } from "preact/hooks";

import { nodesFreshness, queueFreshness } from "../app/live/freshness";
import { describeProblem } from "../app/live/problem-text";
import { follow, nodes, session, type Problem } from "../app/live/store";
import { useShortcuts } from "../app/page/keys";
import { useTitle } from "../app/page/title";
import { countOf, formatClockSeconds, formatCount } from "../app/text/format";
import { Banner, Empty } from "../parts/Banner";
import { Text } from "../parts/Text";
import { MapCanvas } from "./nodes/MapCanvas";
import { MapLegend } from "./nodes/MapLegend";
import { NodesNotHere, NoRightToNodes } from "./nodes/NoNodes";
import { NodeTable } from "./nodes/NodeTable";
import { Sums } from "./nodes/Sums";
import { Toolbar } from "./nodes/Toolbar";
import { cycleColour, isTable, sortedNodes, toggleTable } from "./nodes/model";

/** The page of nodes: the cluster map, or the same rows as a table, beside their sums. */
export function NodesView() {
  useTitle("Nodes");
  useEffect(() => follow("nodes"), []);
  useShortcuts("Nodes", [
    { keys: "t", label: "Map, or table of nodes", run: toggleTable },
    { keys: "c", label: "Colour by job, queue, state, time left", run: cycleColour },
  ]);
  return (
    <div class="page nodes-page drawing">
      <div class="page-head">
        <h1>Nodes</h1>
        <NodeCounts />
      </div>
      <NodesContent />
    </div>
  );
}

/** Counts of nodes, beside the title. */
function NodeCounts() {
  if (sortedNodes.value.length === 0) return null;
  const bad = sortedNodes.value.filter((node) => !node.schedulable).length;
  return (
    <p class="counts">
      <span>{countOf(sortedNodes.value.length, "node")}</span>
      {bad > 0 && <span>{`${formatCount(bad)} ${bad === 1 ? "takes" : "take"} no pods`}</span>}
    </p>
  );
}

function NodesContent() {
  const problem = nodes.problem.value;
  if (problem?.kind === "denied" || session.value?.may.nodes === false) return <NoRightToNodes problem={problem} />;
  const freshness = nodesFreshness.value;
  if (freshness.state === "failed" || freshness.state === "loading") return <NodesNotHere />;
  if (nodes.nodes.value.size === 0) return <Empty title="There is no node">The scheduler knows no node that runs pods of jobs.</Empty>;
  return (
    <>
      <NodesBanner />
      <Toolbar />
      <div class={`nodes-columns ${freshness.state === "stale" && queueFreshness.value.state !== "stale" ? "is-stale" : ""}`}>
        <div class="nodes-main">{isTable.value ? <NodeTable /> : <MapCanvas />}</div>
        <aside class="nodes-side" aria-label="Sums">
          <Sums />
          {!isTable.value && <MapLegend />}
        </aside>
      </div>
    </>
  );
}

/** True if jobs are old for the same cause: a banner above the page says so already. */
function isCauseOfJobs(problem: Problem | undefined): boolean {
  const jobs = queueFreshness.value;
  return jobs.state === "stale" && jobs.problem?.kind === problem?.kind;
}

/** Says that the rows of nodes are old, and what the list leaves out. */
function NodesBanner() {
  const freshness = nodesFreshness.value;
  const problem = freshness.state === "stale" && !isCauseOfJobs(freshness.problem) ? freshness.problem : undefined;
  const words = problem && describeProblem(problem);
  return (
    <>
      {words && freshness.state === "stale" && (
        <Banner tone="warning" title={words.title}>
          <Text text={words.text} /> Nodes as of {formatClockSeconds(freshness.time)}.
        </Banner>
      )}
      {nodes.notes.value.slice(0, 5).map((note) => (
        <Banner key={note} tone="info" title="Not everything is shown">
          <Text text={note} />
        </Banner>
      ))}
    </>
  );
}
