import { jobKey } from "../../app/live/store";
import { countOf } from "../../app/text/format";
import { type Axis, type JobBar, axisMarks, axisOf, barOf, placeOn } from "../../app/what-if/bars";
import { effectLook } from "../../app/what-if/moved-jobs";
import { Card } from "../../parts/Card";
import { Legend } from "../../parts/Legend";
import { Name } from "../../parts/Text";
import type { MovedJob } from "../../wire/forecast";

/** Jobs in the drawing. The table has all. */
const MAX_JOBS = 20;

/** Before and after as bars. The table says the same in words, so a screen reader skips the drawing. */
export function MovedJobBars({ jobs, time }: { readonly jobs: readonly MovedJob[]; readonly time: Date }) {
  const shown = jobs.slice(0, MAX_JOBS);
  const axis = axisOf(shown, time);
  const hidden = jobs.length - shown.length;
  return (
    <Card title="Before and after" aside={<BarLegend />}>
      <div class="what-if-bars" aria-hidden="true">
        <div class="what-if-bar-row">
          <span />
          <div class="what-if-axis">
            <span class="what-if-mark" style={{ left: `${placeOn(axis, time.getTime())}%` }}>
              now
            </span>
            {axisMarks(axis, time).map(({ x, label }) => (
              <span key={label} class="what-if-mark" style={{ left: `${x}%` }}>
                {label}
              </span>
            ))}
          </div>
        </div>
        {shown.map((job) => (
          <div key={jobKey(job)} class="what-if-bar-row">
            <span class="what-if-bar-name">
              <Name text={`${job.namespace}/${job.name}`} />
            </span>
            <JobBars job={job} axis={axis} time={time} />
          </div>
        ))}
      </div>
      {hidden > 0 && <p class="card-text dim">The drawing leaves out {countOf(hidden, "job")} that moves less; the table has all.</p>}
    </Card>
  );
}

function BarLegend() {
  const sample = (name: string) => <span class={`what-if-sample what-if-${name}`} />;
  return (
    <Legend
      label="Bars"
      entries={[
        { sample: sample("before"), text: "before" },
        { sample: sample("after"), text: "after" },
      ]}
    />
  );
}

function JobBars({ job, axis, time }: { readonly job: MovedJob; readonly axis: Axis; readonly time: Date }) {
  const now = `${placeOn(axis, time.getTime())}%`;
  return (
    <div class="what-if-track">
      <Bar bar={barOf(job.before, axis)} look="before" />
      <Bar bar={barOf(job.after, axis)} look={`after tone-bar-${effectLook(job.effect).tone}`} />
      <span class="what-if-now" style={{ left: now }} />
    </div>
  );
}

function Bar({ bar, look }: { readonly bar: JobBar | undefined; readonly look: string }) {
  if (!bar) return null;
  return <span class={`what-if-bar what-if-${look}${bar.isOpen ? " is-open" : ""}`} style={{ left: `${bar.x}%`, width: `${bar.width}%` }} />;
}
