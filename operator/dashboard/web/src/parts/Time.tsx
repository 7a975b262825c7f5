/** Times, by the clock of the server. */

import { now } from "../app/server/clock";
import { formatAge, formatClock, formatDateTime, formatUntil } from "../app/text/format";
import type { Time } from "../wire/cluster";

interface TimeProps {
  readonly time: Time;
}

/** The time since then, such as `5h30m`. */
export function Age({ time }: TimeProps) {
  return (
    <time dateTime={time} title={formatDateTime(time)}>
      {formatAge(time, now.value)}
    </time>
  );
}

/** The time since then with "ago". */
export function Ago({ time }: TimeProps) {
  return (
    <time dateTime={time} title={formatDateTime(time)}>
      {formatAge(time, now.value)} ago
    </time>
  );
}

/** The time until then, such as `in 63m`, or `now`. */
export function Until({ time }: TimeProps) {
  const span = formatUntil(time, now.value);
  return (
    <time dateTime={time} title={formatDateTime(time)}>
      {span === "now" ? span : `in ${span}`}
    </time>
  );
}

/** A time of day. */
export function Clock({ time }: TimeProps) {
  return (
    <time dateTime={time} title={formatDateTime(time)}>
      {formatClock(time, now.value)}
    </time>
  );
}
