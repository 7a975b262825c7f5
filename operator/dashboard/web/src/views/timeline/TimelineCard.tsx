import { phaseOf } from "../../app/job/jobs";
import { queue } from "../../app/live/store";
import { urls } from "../../app/page/route";
import { now } from "../../app/server/clock";
import { countOf } from "../../app/text/format";
import { gangOfKey } from "../../draw/base/gang";
import { PhaseBadge } from "../../parts/Badge";
import { Icon } from "../../parts/Icon";
import { JobLink } from "../../parts/links";
import { foreseen } from "./describe-job";
import type { TimelineController } from "./timeline-controller";

/** The chosen job, with links to its page and to its place on the map. */
export function TimelineCard({ controller }: { readonly controller: TimelineController }) {
  const key = controller.chosen.value;
  const job = key === undefined ? undefined : queue.jobs.value.get(key);
  if (key === undefined || job === undefined) return null;
  return (
    <section class="map-card timeline-card" aria-label="Chosen job">
      <div class="map-card-head">
        <strong>
          <JobLink job={gangOfKey(key)} />
        </strong>
        <button type="button" class="icon-button" aria-label="End the choice" onClick={() => controller.endChoice()}>
          <Icon name="cross" />
        </button>
      </div>
      <div class="map-card-row">
        <PhaseBadge phase={phaseOf(job)} />
        <span>{foreseen(job, now.value)}</span>
      </div>
      <div class="map-card-row">
        <span>
          {countOf(job.gpus, "GPU")}, {countOf(job.pods, "pod")}
        </span>
        <a href={urls.nodes({ job: key })}>show on map</a>
      </div>
    </section>
  );
}
