import { useComputed } from "@preact/signals";
import { useId } from "preact/hooks";

import { jobKey, queue, session } from "../../app/live/store";
import { urls } from "../../app/page/route";
import { type KnownNames, lineSentence, unnamedNodes, verdictLook } from "../../app/plan/words";
import { Badge } from "../../parts/Badge";
import { Icon } from "../../parts/Icon";
import { Sentence } from "../../parts/Sentence";
import { Name, Text } from "../../parts/Text";
import { JobLink, NodeLinks } from "../../parts/links";
import type { PlanSection, PlannedJob } from "../../wire/plan";

/** A job with its verdict, and what `trellis plan` prints about it. */
export function PlannedJobCard({ job }: { readonly job: PlannedJob }) {
  const id = useId();
  const look = verdictLook(job.verdict);
  const exists = useComputed(() => queue.jobs.value.has(jobKey(job))).value;
  return (
    <section class={`card planned planned-${look.tone}`} aria-labelledby={id}>
      <div class="card-head">
        <h2 id={id}>{exists ? <JobLink job={job} /> : <Name text={`${job.namespace}/${job.name}`} />}</h2>
        <Badge tone={look.tone} icon={look.icon}>
          <Name text={job.verdict} />
        </Badge>
      </div>
      <dl class="planned-sections">
        {reasonFirst(job.sections).map((section) => (
          <div key={section.name}>
            <dt>
              <Name text={section.name} />
            </dt>
            <dd>
              <Lines job={job} section={section} />
              {section.name === "nodes" && <NodePlaces job={job} />}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

/** The reason why a job would not run is what its author looks for. */
function reasonFirst(sections: readonly PlanSection[]): PlanSection[] {
  return sections.toSorted((a, b) => Number(b.name === "reason") - Number(a.name === "reason"));
}

const known: KnownNames = {
  isJob: (key) => queue.jobs.value.has(key),
  isQueue: (name) => queue.queues.value?.has(name) ?? false,
};

function Lines({ job, section }: { readonly job: PlannedJob; readonly section: PlanSection }) {
  if (section.name === "reason") {
    return section.lines.map((line, place) => (
      <p key={place} class="planned-reason">
        <Text text={line} max={2_000} />
      </p>
    ));
  }
  return (
    <ul>
      {section.lines.map((line, place) => (
        <li key={place} class={line.startsWith("  ") ? "planned-detail" : undefined}>
          <Sentence spans={lineSentence(job, section.name, line, known)} />
        </li>
      ))}
    </ul>
  );
}

/** The nodes that the lines do not name, and the way to the map. */
function NodePlaces({ job }: { readonly job: PlannedJob }) {
  const [first] = job.nodes;
  const others = unnamedNodes(job);
  return (
    <>
      {others.length > 0 && (
        <details class="planned-nodes">
          <summary>All nodes</summary>
          <NodeLinks names={job.nodes} />
        </details>
      )}
      {first !== undefined && session.value?.may.nodes && (
        <a class="planned-map" href={urls.nodes({ at: first })}>
          <Icon name="map" />
          {job.nodes.length === 1 ? "show on map" : <ShowFirst node={first} />}
        </a>
      )}
    </>
  );
}

/** The map marks one node. */
function ShowFirst({ node }: { readonly node: string }) {
  return (
    <span>
      show <Name text={node} /> on map
    </span>
  );
}
