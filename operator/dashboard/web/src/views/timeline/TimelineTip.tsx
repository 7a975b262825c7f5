import { useLayoutEffect, useRef } from "preact/hooks";

import { describeAttempt } from "../../app/job/ended-attempts";
import { describeReason, phaseOf } from "../../app/job/jobs";
import { now } from "../../app/server/clock";
import { countOf, formatAge, formatClock, formatCount } from "../../app/text/format";
import { gangOfKey, gangTitle } from "../../draw/base/gang";
import type { JobRow } from "../../draw/timeline/rows";
import { Name, Text } from "../../parts/Text";
import type { EndedAttempt } from "../../wire/attempt";
import type { JobState } from "../../wire/cluster";
import { capital, foreseen } from "./describe-job";
import { curve } from "./model";
import type { TimelineController } from "./timeline-controller";

/** Distance between the tip and the pointer, in CSS pixels. */
const DISTANCE = 14;

/** The job, the ended attempt or the curve at the pointer, in words. Screen readers get the same text from the live region. */
export function TimelineTip({ controller }: { readonly controller: TimelineController }) {
  const box = useRef<HTMLDivElement>(null);
  const pointed = controller.pointed.value;

  useLayoutEffect(() => {
    const element = box.current;
    const room = element?.parentElement;
    if (!element || !room || !pointed) return;
    const { x, y } = pointed.at;
    const isRoomBelow = y + DISTANCE + element.offsetHeight <= room.clientHeight;
    const top = isRoomBelow ? y + DISTANCE : y - DISTANCE - element.offsetHeight;
    const left = Math.min(x + DISTANCE, room.clientWidth - element.offsetWidth - 4);
    element.style.transform = `translate(${Math.round(Math.max(left, 4))}px, ${Math.round(Math.max(top, 4))}px)`;
  });

  if (pointed === undefined) return null;
  const { row, ended, gpus, time } = pointed;
  return (
    <div class="map-tip" ref={box} aria-hidden="true">
      {row && (
        <div class="map-tip-head">
          <strong>
            <Name text={gangTitle(gangOfKey(row.key))} />
          </strong>
          {time !== undefined && <span class="dim">{formatClock(new Date(time), now.value)}</span>}
        </div>
      )}
      {row && <RowText row={row} ended={ended} />}
      {gpus !== undefined && time !== undefined && (
        <div>
          <strong>{formatClock(new Date(time), now.value)}</strong>: {formatCount(gpus)}{" "}
          {curve.value.kind === "free" ? `of ${formatCount(curve.value.top)} GPUs free` : "GPUs held by the listed jobs"}, no promise
        </div>
      )}
    </div>
  );
}

/** The ended attempt at the pointer, else the job as it is. A job that is gone has only its last attempt. */
function RowText({ row, ended }: { readonly row: JobRow; readonly ended: EndedAttempt | undefined }) {
  const shown = ended ?? (row.job === undefined ? row.past.at(-1) : undefined);
  if (shown !== undefined) return <AttemptText ended={shown} />;
  return row.job === undefined ? null : <JobText job={row.job} />;
}

function AttemptText({ ended }: { readonly ended: EndedAttempt }) {
  return (
    <>
      <div>{capital(describeAttempt(ended, now.value))}</div>
      <div class="dim">
        {countOf(ended.gpus, "GPU")}, {formatClock(ended.placed, now.value)} to {formatClock(ended.ended, now.value)}
      </div>
      {ended.user !== undefined && (
        <div class="dim">
          <Name text={ended.user} />
        </div>
      )}
    </>
  );
}

function JobText({ job }: { readonly job: JobState }) {
  const reason = describeReason(job);
  return (
    <>
      <div>
        {phaseOf(job)} for {formatAge(job.since, now.value)}, {countOf(job.gpus, "GPU")}, {foreseen(job, now.value)}
      </div>
      {job.user !== undefined && (
        <div class="dim">
          <Name text={job.user} />
        </div>
      )}
      {reason !== "" && (
        <div class="dim">
          <Text text={reason} max={160} />
        </div>
      )}
    </>
  );
}
