import { formatUntil } from "../../app/text/format";
import { type Outcome as Result, isAsking, outcome, text, written } from "../../app/what-if/forecaster";
import { sortMovedJobs, summarizeForecast } from "../../app/what-if/moved-jobs";
import { describeForecastFailure, placeProblems } from "../../app/what-if/problems";
import { Banner } from "../../parts/Banner";
import { Card } from "../../parts/Card";
import { RoleCommands } from "../../parts/RoleCommands";
import { Text } from "../../parts/Text";
import { Clock } from "../../parts/Time";
import type { ForecastStatus } from "../../wire/forecast";
import { MovedJobBars } from "./MovedJobBars";
import { MovedJobTable } from "./MovedJobTable";

/** How the last forecast has ended. */
export function Outcome() {
  const result = outcome.value;
  // Without changes, an earlier answer belongs to no list.
  if (written.value.changes.length === 0) return null;
  return (
    <section class={isAsking.value ? "what-if-outcome is-old" : "what-if-outcome"} aria-label="Forecast" aria-busy={isAsking.value}>
      {isAsking.value && <p class="dim">The scheduler looks ahead…</p>}
      {!result && !isAsking.value && <p class="dim">Press Forecast to ask the scheduler.</p>}
      {result && <Ended result={result} />}
    </section>
  );
}

function Ended({ result }: { readonly result: Result }) {
  const isOld = result.asked !== text.value;
  return (
    <>
      {isOld && !isAsking.value && (
        <Banner tone="info" title="The changes are others than those of this answer">
          Press Forecast to ask again.
        </Banner>
      )}
      {"answer" in result ? <Answer answer={result.answer} /> : <Failure result={result} isOld={isOld} />}
    </>
  );
}

function Answer({ answer }: { readonly answer: ForecastStatus }) {
  const jobs = sortMovedJobs(answer.jobs);
  return (
    <>
      <p class="what-if-summary">{summarizeForecast(answer)}</p>
      {answer.horizon !== undefined && (
        <Banner tone="info" title={`The scheduler looked ${formatUntil(answer.horizon, new Date(answer.time))} ahead, and not longer`}>
          Later starts and ends are unknown.
        </Banner>
      )}
      {jobs.length > 0 && (
        <>
          <MovedJobBars jobs={jobs} time={new Date(answer.time)} />
          <Card title="Moved jobs">
            <MovedJobTable jobs={jobs} time={new Date(answer.time)} />
          </Card>
        </>
      )}
      <p class="dim what-if-assumes">
        Seen from <Clock time={answer.time} />. The forecast assumes that no other job arrives, that running jobs end when
        expected, and that policies allow the jobs: it judges no policy.
      </p>
    </>
  );
}

function Failure({ result, isOld }: { readonly result: Extract<Result, { readonly error: unknown }>; readonly isOld: boolean }) {
  const { error, since } = result;
  if (error.kind === "denied") return <NoRight message={error.message} />;
  const { title, text: words } = describeForecastFailure(error, since);
  const placed = placeProblems(error.message, written.value.changes.length);
  // Each change shows its own messages.
  if (error.kind === "invalid" && !isOld && placed.byChange.size > 0) {
    return (
      <Banner tone="warning" title={title}>
        {placed.rest.map((message) => (
          <p key={message}>
            <Text text={message} max={2_000} />
          </p>
        ))}
        <p>The list above says why.</p>
      </Banner>
    );
  }
  return (
    <Banner tone="warning" title={title}>
      <Text text={words} max={2_000} />
    </Banner>
  );
}

/** Which right is missing, and the commands that give it. */
function NoRight({ message }: { readonly message: string }) {
  return (
    <Card title="You may not ask for forecasts">
      <p class="card-text">
        <Text text={message} max={2_000} />
      </p>
      <p class="card-text">
        A forecast needs the right to create forecasts.visibility.trellis.dev, because the answer names jobs of all
        namespaces. The ClusterRole trellis-platform has it. An administrator can grant it alone:
      </p>
      <RoleCommands role="trellis-forecast" verbs="create" resource="forecasts.visibility.trellis.dev" />
    </Card>
  );
}
