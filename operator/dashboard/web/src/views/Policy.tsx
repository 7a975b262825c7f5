import { query, urls } from "../app/page/route";
import { useTitle } from "../app/page/title";
import { findPolicies } from "../app/policy/policy-ref";
import { keyOf } from "../app/policy/policy-state";
import { Loading } from "../parts/Banner";
import { Name } from "../parts/Text";
import { JobPolicyBody } from "./policy/JobPolicyBody";
import { PolicyNotes } from "./policy/PolicyNotes";
import { PolicyProblem } from "./policy/PolicyProblem";
import { QuotaPolicyBody } from "./policy/QuotaPolicyBody";
import { usePolicies } from "./policy/use-policies";

/** The policies of one name: usually one. */
export function PolicyView({ name }: { readonly name: string }) {
  useTitle(`Policy ${name}`);
  const { answer, problem } = usePolicies();
  const kind = query.value.get("kind") ?? undefined;
  const found = answer && findPolicies(answer, name, kind);
  const isEmpty = found !== undefined && found.jobPolicies.length + found.quotaPolicies.length === 0;
  return (
    <div class="page">
      <div class="page-head">
        <p class="crumbs">
          <a href={urls.policies()}>Policies</a>
        </p>
        <h1>
          <Name text={name} />
        </h1>
      </div>
      <PolicyNotes answer={answer} problem={problem} />
      {!answer && problem && <PolicyProblem problem={problem} />}
      {!answer && !problem && <Loading rows={8} />}
      {isEmpty && <p>No policy that you may list has this name. It may have been deleted.</p>}
      {answer && found?.jobPolicies.map((policy) => <JobPolicyBody key={keyOf(policy)} policy={policy} jobs={answer.jobs} />)}
      {found?.quotaPolicies.map((policy) => (
        <QuotaPolicyBody key={policy.name} policy={policy} />
      ))}
    </div>
  );
}
