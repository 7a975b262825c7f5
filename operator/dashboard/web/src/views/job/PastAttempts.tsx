import { useState } from "preact/hooks";

import { END_LOOKS, checkpointOf, endKind, endWord } from "../../app/job/ended-attempts";
import { countOf, formatAge } from "../../app/text/format";
import { Badge } from "../../parts/Badge";
import { Name, Text } from "../../parts/Text";
import { Ago, Clock } from "../../parts/Time";
import type { EndedAttempt } from "../../wire/attempt";
import { FailureText } from "./FailureText";

/** Attempts that are listed at first. */
const MAX_SHOWN = 8;

/** The ended attempts of a job, the newest first. `known` is a message that the page shows already. */
export function PastAttempts({ attempts, known }: { readonly attempts: readonly EndedAttempt[]; readonly known: string | undefined }) {
  const [isWhole, setWhole] = useState(false);
  if (attempts.length === 0) return null;
  return (
    <>
      <ol class="past-attempts" aria-label="Ended attempts">
        {(isWhole ? attempts : attempts.slice(0, MAX_SHOWN)).map((ended) => (
          <li key={ended.metadata.name}>
            <PastAttempt ended={ended} known={known} />
          </li>
        ))}
      </ol>
      {!isWhole && attempts.length > MAX_SHOWN && (
        <p class="card-foot">
          <button type="button" class="more" onClick={() => setWhole(true)}>
            {countOf(attempts.length - MAX_SHOWN, "earlier attempt")}
          </button>
        </p>
      )}
    </>
  );
}

function PastAttempt({ ended, known }: { readonly ended: EndedAttempt; readonly known: string | undefined }) {
  const { tone, icon } = END_LOOKS[endKind(ended)];
  const end = new Date(ended.ended);
  const checkpoint = checkpointOf(ended);
  const message = ended.failure && !ended.preempted ? undefined : ended.message;
  return (
    <>
      <div class="past-attempt-head">
        <strong>Attempt {ended.attempt}</strong>
        <Badge tone={tone} icon={icon}>
          <Name text={endWord(ended)} />
        </Badge>
        <span class="dim">
          <Ago time={ended.ended} />
        </span>
      </div>
      <p class="dim">
        placed <Clock time={ended.placed} />, {ended.running === undefined ? "never ran" : `ran ${formatAge(ended.running, end)}`}, ended{" "}
        <Clock time={ended.ended} />; held {countOf(ended.gpus, "GPU")} for {formatAge(ended.placed, end)}
        {checkpoint !== undefined && `; last checkpoint ${formatAge(checkpoint, end)} before the end`}
      </p>
      {ended.failure && (
        <div>
          <FailureText failure={ended.failure} />
        </div>
      )}
      {message !== undefined && message !== known && (
        <p>
          <Text text={message} />
        </p>
      )}
    </>
  );
}
