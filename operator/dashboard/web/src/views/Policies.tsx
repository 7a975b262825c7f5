import { queue } from "../app/live/store";
import { useTitle } from "../app/page/title";
import { keyOf, sortJobPolicies, sortQuotaPolicies } from "../app/policy/policy-state";
import { countOf } from "../app/text/format";
import { Empty, Loading } from "../parts/Banner";
import { Card } from "../parts/Card";
import { Command } from "../parts/Copy";
import { NamespaceFilter } from "../parts/NamespaceFilter";
import type { PoliciesAnswer } from "../wire/policy";
import { JobPolicyRow } from "./policy/JobPolicyRow";
import { PolicyNotes } from "./policy/PolicyNotes";
import { PolicyProblem } from "./policy/PolicyProblem";
import { QuotaPolicyRow } from "./policy/QuotaPolicyRow";
import { VerdictList } from "./policy/VerdictList";
import { usePolicies } from "./policy/use-policies";

/** Jobs in the list. The page of a policy has those that it decides on. */
const MAX_JOBS = 20;

/** All policies with their effects: those that need an action first. */
export function Policies() {
  useTitle("Policies");
  const { answer, problem, namespace } = usePolicies();
  return (
    <div class="page">
      <div class="page-head">
        <h1>Policies</h1>
        {answer && (
          <p class="counts">
            <span>{countOf(answer.jobPolicies.length, "job policy", "job policies")}</span>
            <span>{countOf(answer.quotaPolicies.length, "quota policy", "quota policies")}</span>
          </p>
        )}
      </div>
      <div class="toolbar">
        <NamespaceFilter value={namespace} namespaces={namespacesOf(answer)} />
      </div>
      <PolicyNotes answer={answer} problem={problem} />
      {!answer && problem && <PolicyProblem problem={problem} />}
      {!answer && !problem && <Loading rows={8} />}
      {answer && <PolicyCards answer={answer} />}
      <Command label="Same in a terminal" text="kubectl get clusterjobpolicies,jobpolicies,quotapolicies -A" />
    </div>
  );
}

function PolicyCards({ answer }: { readonly answer: PoliciesAnswer }) {
  const isUnread = (...kinds: readonly string[]): boolean => kinds.every((kind) => answer.unread.includes(kind));
  return (
    <>
      <Card title="Jobs that policies deny or warn">
        {isUnread("trainingjobs") ? (
          <Unread kinds="TrainingJobs" />
        ) : answer.jobs.length === 0 ? (
          <Empty icon="check" title="Policies allow every job, without a warning." />
        ) : (
          <VerdictList jobs={answer.jobs} count={answer.jobCount} most={MAX_JOBS} />
        )}
      </Card>
      <Card title="Job policies">
        {answer.jobPolicies.length > 0 ? (
          <ul class="policy-rows">
            {sortJobPolicies(answer.jobPolicies).map((policy) => (
              <JobPolicyRow key={keyOf(policy)} policy={policy} />
            ))}
          </ul>
        ) : isUnread("clusterjobpolicies", "jobpolicies") ? (
          <Unread kinds="ClusterJobPolicies and JobPolicies" />
        ) : isUnread("clusterjobpolicies") ? (
          <Empty title="This namespace has no JobPolicy." />
        ) : (
          <Empty icon="warning" title="There is no job policy, so each job is refused.">
            <p class="dim">A request that no policy permits is denied. The chart has a starter set: its value starterPolicies.</p>
          </Empty>
        )}
      </Card>
      <Card title="Quota policies">
        {answer.quotaPolicies.length > 0 ? (
          <ul class="policy-rows">
            {sortQuotaPolicies(answer.quotaPolicies).map((policy) => (
              <QuotaPolicyRow key={policy.name} policy={policy} />
            ))}
          </ul>
        ) : isUnread("quotapolicies") ? (
          <Unread kinds="QuotaPolicies" />
        ) : (
          <Empty title="No quota policy limits teams, queues or users." />
        )}
      </Card>
    </>
  );
}

/** The reason is one of the notes above. */
function Unread({ kinds }: { readonly kinds: string }) {
  return (
    <Empty title={`${kinds} could not be read.`}>
      <p class="dim">
        The note above says why. If a right is missing: the ClusterRole trellis-view has it. Ask an administrator.
      </p>
    </Empty>
  );
}

/** Namespaces with jobs or policies, by name. */
function namespacesOf(answer: PoliciesAnswer | undefined): string[] {
  const names = new Set<string>();
  for (const job of queue.jobs.value.values()) if (job.metadata.namespace !== undefined) names.add(job.metadata.namespace);
  for (const { namespace } of [...(answer?.jobPolicies ?? []), ...(answer?.jobs ?? [])]) if (namespace !== undefined) names.add(namespace);
  return [...names].sort();
}
