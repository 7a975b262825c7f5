import { isIdOf } from "../../app/policy/policy-ref";
import { policyState, violationCount, violationWords } from "../../app/policy/policy-state";
import { selectorText } from "../../app/policy/quota-use";
import { countOf } from "../../app/text/format";
import { command } from "../../app/text/shell-quote";
import { Empty } from "../../parts/Banner";
import { Card, Facts } from "../../parts/Card";
import { Command, CopyButton } from "../../parts/Copy";
import { Name, Text } from "../../parts/Text";
import { JobLink, PolicyIdLink } from "../../parts/links";
import type { JobPolicy, JobVerdict } from "../../wire/policy";
import { PolicyStateBadge } from "./PolicyBadges";
import { PolicyConditions } from "./PolicyConditions";
import { VerdictList } from "./VerdictList";

const MAX_JOBS = 50;
/** Characters of the text that are shown at first. An object has at most 65,536. */
const MAX_TEXT = 8_000;

/** A ClusterJobPolicy or a JobPolicy: the jobs that it hits, its state, and its text. */
export function JobPolicyBody({ policy, jobs }: { readonly policy: JobPolicy; readonly jobs: readonly JobVerdict[] }) {
  const state = policyState(policy);
  const deciding = jobs.filter(({ policy: verdict }) => verdict.policies?.some((id) => isIdOf(id, policy)));
  const place = policy.namespace === undefined ? [] : ["-n", policy.namespace];
  return (
    <>
      <div class="queue-page">
        <div>
          <Violations policy={policy} />
          <Card title="Jobs that it decides on">
            {deciding.length === 0 ? (
              <Empty icon="check" title="It denies no job that waits." />
            ) : (
              <VerdictList jobs={deciding} count={deciding.length} most={MAX_JOBS} />
            )}
          </Card>
        </div>
        <Card title={policy.kind} aside={<PolicyStateBadge state={state} />}>
          <Facts
            facts={[
              policy.namespace !== undefined && { term: "Namespace", value: <Name text={policy.namespace} /> },
              { term: "Enforcement", value: <Name text={policy.enforcement} /> },
              policy.enforcement === "Deny" && { term: "On violation", value: <Name text={policy.onViolation} /> },
              policy.namespace === undefined && { term: "Applies to", value: <Text text={selectorText(policy.namespaceSelector)} /> },
              { term: "Tests", value: policy.testCount },
              {
                term: "In effect",
                value: <Ids ids={policy.status?.policyIds ?? []} />,
              },
            ]}
          />
          <div class="card-text">
            <PolicyConditions conditions={policy.status?.conditions ?? []} />
          </div>
        </Card>
      </div>
      <Card
        title="Text"
        aside={<CopyButton text={policy.cedar} what="policies" />}
      >
        <div class="card-text policy">
          <pre tabIndex={0}>
            <Text text={policy.cedar} max={MAX_TEXT} lines />
          </pre>
        </div>
      </Card>
      <Command label="Same in a terminal" text={command("kubectl", "get", policy.kind.toLowerCase(), policy.name, ...place, "-o", "yaml")} />
    </>
  );
}

function Ids({ ids }: { readonly ids: readonly string[] }) {
  if (ids.length === 0) return <>none</>;
  return (
    <ul>
      {ids.map((id) => (
        <li key={id}>
          <Name text={id} />
        </li>
      ))}
    </ul>
  );
}

/** Jobs that the policy denies, and that go on. */
function Violations({ policy }: { readonly policy: JobPolicy }) {
  const violations = policy.status?.violations ?? [];
  const all = violationCount(policy);
  if (all === 0) return null;
  return (
    <Card title={`${countOf(all, "job")} ${violationWords(policy)}`}>
      <ul class="policy-jobs">
        {violations.map((violation) => (
          <li key={`${violation.namespace}/${violation.job}`}>
            <JobLink job={{ namespace: violation.namespace, name: violation.job }} />
            <p>
              <Text text={violation.message} />
            </p>
            <p class="dim">
              {violation.policies.map((id, place) => (
                <span key={id}>
                  {place > 0 && ", "}
                  <PolicyIdLink id={id} />
                </span>
              ))}
            </p>
          </li>
        ))}
      </ul>
      {all > violations.length && <p class="card-foot">{countOf(all - violations.length, "more job")} of this kind</p>}
    </Card>
  );
}
