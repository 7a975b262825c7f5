import { describeEta, phaseOf } from "../../app/job/jobs";
import { queue } from "../../app/live/store";
import { now } from "../../app/server/clock";
import { countOf } from "../../app/text/format";
import { gangOfKey } from "../../draw/base/gang";
import { PhaseBadge } from "../../parts/Badge";
import { Icon } from "../../parts/Icon";
import { Name, Text } from "../../parts/Text";
import { JobLink, QueueLink } from "../../parts/links";
import { chooseGang, chosenGang, chosenQueue, gangNodes, litGangs } from "./model";

/** The chosen job or queue, with links to its page. */
export function GangCard({ onShow }: { readonly onShow: (gang: string) => void }) {
  const gang = chosenGang.value;
  if (gang === undefined) return <QueueCard />;
  const job = queue.jobs.value.get(gang);
  const nodes = gangNodes.value.get(gang)?.length ?? 0;
  return (
    <section class="map-card" aria-label="Chosen job">
      <div class="map-card-head">
        <strong>
          <JobLink job={gangOfKey(gang)} />
        </strong>
        <CloseButton />
      </div>
      {job ? (
        <>
          <div class="map-card-row">
            <PhaseBadge phase={phaseOf(job)} />
            <span>{describeEta(job, now.value) ?? "no known end"}</span>
          </div>
          <div>
            {countOf(job.gpus, "GPU")}, {countOf(job.pods, "pod")} in queue <QueueLink name={job.queue} />
          </div>
          {job.user !== undefined && (
            <div class="dim">
              of <Name text={job.user} />
            </div>
          )}
          {job.message !== undefined && job.phase !== "Running" && (
            <div class="dim">
              <Text text={job.message} max={160} />
            </div>
          )}
        </>
      ) : (
        <div class="dim">This job is not in the list of jobs.</div>
      )}
      <div class="map-card-row">
        <span>{nodes === 0 ? "on no node" : `on ${countOf(nodes, "node")}`}</span>
        {nodes > 0 && (
          <button type="button" class="button" onClick={() => onShow(gang)}>
            Zoom to {nodes === 1 ? "it" : "them"}
          </button>
        )}
      </div>
    </section>
  );
}

function QueueCard() {
  const name = chosenQueue.value;
  if (name === undefined) return null;
  const gangs = [...(litGangs.value ?? [])].filter((gang) => gangNodes.value.has(gang));
  return (
    <section class="map-card" aria-label="Chosen queue">
      <div class="map-card-head">
        <strong>
          Queue <QueueLink name={name} />
        </strong>
        <CloseButton />
      </div>
      <div>{countOf(gangs.length, "job")} of this queue on the map</div>
    </section>
  );
}

function CloseButton() {
  return (
    <button type="button" class="icon-button" aria-label="End the choice" onClick={() => chooseGang(undefined)}>
      <Icon name="cross" />
    </button>
  );
}
