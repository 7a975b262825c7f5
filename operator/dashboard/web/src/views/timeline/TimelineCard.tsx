import { describeAttempt } from "../../app/job/ended-attempts";
import { phaseOf } from "../../app/job/jobs";
import { urls } from "../../app/page/route";
import { now } from "../../app/server/clock";
import { countOf } from "../../app/text/format";
import { gangOfKey } from "../../draw/base/gang";
import { PhaseBadge } from "../../parts/Badge";
import { Icon } from "../../parts/Icon";
import { JobLink } from "../../parts/links";
import { capital, foreseen, shownAttempts } from "./describe-job";
import type { TimelineController } from "./timeline-controller";

/** The chosen job with its last attempts, and links to its page and to its place on the map. */
export function TimelineCard({ controller }: { readonly controller: TimelineController }) {
  const row = controller.chosenRow.value;
  if (row === undefined) return null;
  const { key, job, past } = row;
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
      {job && (
        <>
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
        </>
      )}
      {shownAttempts(past).map((ended) => (
        <p key={ended.metadata.name} class="timeline-attempt">
          {capital(describeAttempt(ended, now.value))}
        </p>
      ))}
    </section>
  );
}
