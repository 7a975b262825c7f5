import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { queueFreshness } from "../app/live/freshness";
import { describeProblem, describeRetry } from "../app/live/problem-text";
import { firstVersion, queue, session } from "../app/live/store";
import { retryNow } from "../app/live/sync";
import { announce } from "../app/page/announce";
import { now, skew } from "../app/server/clock";
import { formatClockSeconds, formatSeconds } from "../app/text/format";
import { Banner } from "./Banner";
import { Text } from "./Text";

/** A smaller difference of the clocks does not matter to anybody. */
const SKEW_MS = 30_000;

const isSkewNoteClosed = signal(false);

/** What the user must know about all data on the page. */
export function ProblemBanners() {
  return (
    <div class="banners">
      <StaleBanner />
      <NoteBanner />
      <VersionBanner />
      <ClockBanner />
    </div>
  );
}

function StaleBanner() {
  const freshness = queueFreshness.value;
  const problem = "problem" in freshness ? freshness.problem : undefined;
  const text = problem && describeProblem(problem);
  const isStale = freshness.state === "stale";
  const title = text?.title ?? (isStale ? "The server has not spoken for a while" : "");
  useEffect(() => {
    if (title) announce(title);
  }, [title]);
  if (freshness.state !== "stale") return null;
  const retry = problem ? describeRetry(problem, now.value) : "";
  return (
    <Banner
      tone="warning"
      title={title}
      action={
        problem?.retryAt && (
          <button type="button" class="button" onClick={retryNow}>
            Ask now
          </button>
        )
      }
    >
      {text && <Text text={text.text} />} The data are of {formatClockSeconds(freshness.time)}
      {retry && `; ${retry}`}.
    </Banner>
  );
}

/** Data that the server leaves out, and the reasons. */
function NoteBanner() {
  const notes = queue.notes.value;
  if (notes.length === 0) return null;
  return (
    <Banner tone="info" title="Not everything is shown">
      {notes.slice(0, 5).map((note) => (
        <div key={note}>
          <Text text={note} />
        </div>
      ))}
    </Banner>
  );
}

function VersionBanner() {
  const current = session.value?.version;
  const first = firstVersion.value;
  if (current === undefined || first === undefined || current === first) return null;
  return (
    <Banner
      tone="info"
      title="Trellis has another version now"
      action={
        <button type="button" class="button" onClick={() => location.reload()}>
          Reload
        </button>
      }
    >
      This page is of <Text text={first} />, the server of <Text text={current} />. Words that the page does not
      know are shown as they are.
    </Banner>
  );
}

function ClockBanner() {
  const ahead = skew.value;
  if (Math.abs(ahead) < SKEW_MS || isSkewNoteClosed.value) return null;
  const difference = formatSeconds(Math.abs(ahead) / 1_000);
  return (
    <Banner
      tone="info"
      title={`The clock of this computer is ${difference} ${ahead > 0 ? "fast" : "slow"}`}
      action={
        <button type="button" class="button" onClick={() => (isSkewNoteClosed.value = true)}>
          Hide
        </button>
      }
    >
      All ages on this page follow the clock of the server. Times of day are in your time zone.
    </Banner>
  );
}
