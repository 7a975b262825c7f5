import { phaseOf } from "../../app/job/jobs";
import type { JobChange } from "../../app/live/changes";
import { changes, session } from "../../app/live/store";
import { countOf } from "../../app/text/format";
import { Card } from "../../parts/Card";
import { Name } from "../../parts/Text";
import { Ago } from "../../parts/Time";
import { JobLink } from "../../parts/links";

const MAX_SHOWN = 8;

/** What has happened to jobs since the page was opened: the user's own first. */
export function Changes() {
  const user = session.value?.user;
  const all = changes.value;
  const own = all.filter((change) => change.job.user === user);
  const others = all.filter((change) => change.job.user !== user);
  const shown = [...own, ...others].slice(0, MAX_SHOWN);
  return (
    <Card title="What changed">
      {shown.length === 0 ? (
        <p class="dim card-text">Nothing since this page was opened.</p>
      ) : (
        <ul class="changes">
          {shown.map((change) => (
            <li key={`${change.key} ${change.time.getTime()}`}>
              <JobLink job={{ namespace: change.job.metadata.namespace ?? "", name: change.job.metadata.name }} />{" "}
              <What change={change} />
              <span class="dim">
                {" "}
                <Ago time={change.time.toISOString()} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function What({ change }: { readonly change: JobChange }) {
  const { job, before } = change;
  switch (change.what) {
    case "submitted":
      return (
        <>
          came to queue <Name text={job.queue} />
        </>
      );
    case "started":
      return <>runs{job.nodeCount !== undefined && ` on ${countOf(job.nodeCount, "node")}`}</>;
    case "left":
      return <>ended, or was suspended or deleted</>;
    case "first":
      return (
        <>
          is first in queue <Name text={job.queue} /> now
        </>
      );
    case "phase":
      return (
        <>
          is <Name text={phaseOf(job)} />
          {job.reason && (
            <>
              {" "}
              (<Name text={job.reason} />)
            </>
          )}
          {before && (
            <>
              , it was <Name text={phaseOf(before)} />
            </>
          )}
        </>
      );
  }
}
