import { sortVerdicts } from "../../app/policy/policy-state";
import { countOf } from "../../app/text/format";
import { PhaseBadge } from "../../parts/Badge";
import { DecisionBadge, DecisionDetails } from "../../parts/PolicyDecision";
import { Text } from "../../parts/Text";
import { JobLink } from "../../parts/links";
import type { JobVerdict } from "../../wire/policy";

/** Jobs with the decision about them, those that are denied first. */
export function VerdictList(props: {
  readonly jobs: readonly JobVerdict[];
  /** Number of such jobs, including those that the answer does not list. */
  readonly count: number;
  readonly most: number;
}) {
  const shown = sortVerdicts(props.jobs).slice(0, props.most);
  return (
    <>
      <ul class="policy-jobs">
        {shown.map((job) => (
          <li key={`${job.namespace}/${job.name}`}>
            <div class="policy-row-head">
              <JobLink job={job} />
              {job.phase !== undefined && <PhaseBadge phase={job.phase} />}
              <DecisionBadge policy={job.policy} />
            </div>
            {job.refusal && (
              <p>
                <Text text={job.refusal.message} />
              </p>
            )}
            <DecisionDetails policy={job.policy} />
          </li>
        ))}
      </ul>
      {props.count > shown.length && <p class="card-foot">{countOf(props.count - shown.length, "more job")} of this kind</p>}
    </>
  );
}
