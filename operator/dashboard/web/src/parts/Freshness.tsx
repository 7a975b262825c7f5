import { type Freshness as State, queueFreshness } from "../app/live/freshness";
import { refusal } from "../app/live/store";
import { now } from "../app/server/clock";
import { formatAge, formatClockSeconds, formatDateTime } from "../app/text/format";

/** The age of the jobs on the screen, always in sight. */
export function Freshness() {
  const state = queueFreshness.value;
  if (refusal.value) {
    return (
      <span class="freshness freshness-failed">
        <span class="freshness-dot" aria-hidden="true" />
        no data
      </span>
    );
  }
  return (
    <span class={`freshness freshness-${state.state}`}>
      <span class="freshness-dot" aria-hidden="true" />
      {describe(state)}
    </span>
  );
}

function describe(state: State) {
  switch (state.state) {
    case "loading":
      return "loading";
    case "failed":
      return "no data";
    case "fresh":
      return <span title={`Data of ${formatDateTime(state.time)}`}>{formatAge(state.time, now.value)} ago</span>;
    case "stale":
      return `as of ${formatClockSeconds(state.time)}`;
  }
}
