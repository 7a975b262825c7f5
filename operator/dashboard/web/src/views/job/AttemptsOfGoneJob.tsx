import { attemptsOfJob } from "../../app/job/ended-attempts";
import { useEndedAttempts } from "../../app/live/ended-attempts";
import { Card } from "../../parts/Card";
import type { JobRef } from "../../wire/cluster";
import { PastAttempts } from "./PastAttempts";

/** The attempts of a job that does not exist any more, as far as the leader remembers them. */
export function AttemptsOfGoneJob({ job }: { readonly job: JobRef }) {
  const { answer } = useEndedAttempts(job.namespace);
  const ended = attemptsOfJob(answer?.attempts ?? [], job, undefined);
  if (ended.length === 0) return null;
  return (
    <Card title="Attempts">
      <PastAttempts attempts={ended} known={undefined} />
    </Card>
  );
}
