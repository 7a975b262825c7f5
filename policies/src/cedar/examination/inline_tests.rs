//! Tests inside a policy object.

use trellis_api::Enforcement;
use trellis_api::job_policy::{ExpectedDecision, PolicyTest};

use super::expectation::{check_expectation, undecided_failure};
use super::test_request::ParsedTestRequest;
use crate::cedar::evaluation::{
    DuplicateId, PolicyIndex, RequestDecision, RequestVerdict, decide_request,
};
use crate::cedar::object::PolicyObject;
use crate::cedar::object::compile::CompiledPolicies;
use crate::cedar::problem::PolicyProblem;
use crate::cedar::request::{PolicySchema, RequestContext};

/// A test that has been run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyTestResult {
    /// Its name.
    pub name: String,
    /// Ids of the policies that decide its request.
    pub policies: Vec<String>,
    /// Problem of a failed test. None: the test passes.
    pub failure: Option<PolicyProblem>,
}

impl PolicyTestResult {
    /// Why it fails, as a problem of its object.
    pub(crate) fn into_problem(self) -> Option<PolicyProblem> {
        let failure = self.failure?;
        let message = format!("the test {:?} fails: {}", self.name, failure.message);
        Some(PolicyProblem { message, ..failure })
    }
}

/// Runs the tests of an object.
pub(crate) fn run_tests(
    schema: &PolicySchema,
    object: &PolicyObject,
    compiled: &CompiledPolicies,
) -> Result<Vec<PolicyTestResult>, PolicyProblem> {
    let mut index = PolicyIndex::default();
    // Tests run against every policy as if it were enforced as Deny.
    let added = index.add(schema, object, Enforcement::Deny, &compiled.policies);
    added.map_err(|DuplicateId(error)| {
        PolicyProblem::new("spec.cedar", error, "give each policy another @id")
    })?;
    let tests = object.tests.iter().enumerate();
    let run = tests.map(|(i, test)| {
        let path = format!("spec.tests[{i}]");
        let decided = decide_test(schema, &index, test, &path);
        let (policies, failure) = match decided {
            Ok(decision) => {
                let result = check_decision(test, object, &decision);
                let fix = "correct the policies, or what the test expects";
                let problem = |failure: String| PolicyProblem::new(path, failure, fix);
                (decision.policies, result.err().map(problem))
            }
            Err(problem) => (Vec::new(), Some(problem)),
        };
        PolicyTestResult {
            name: test.name.clone(),
            policies,
            failure,
        }
    });
    Ok(run.collect())
}

fn decide_test(
    schema: &PolicySchema,
    index: &PolicyIndex,
    test: &PolicyTest,
    path: &str,
) -> Result<RequestDecision, PolicyProblem> {
    let path = format!("{path}.request");
    let request =
        ParsedTestRequest::new(&test.request).map_err(|error| error.into_problem(&path))?;
    let subject = request.subject();
    let context = RequestContext::new(schema, &subject, &request.job_attributes())
        .map_err(|error| PolicyProblem::new(path, error.0, "correct the request"))?;
    Ok(decide_request(
        &[index],
        &subject,
        &context,
        &request.policy_request,
        None,
    ))
}

/// Describes the result if the test expects a different one.
fn check_decision(
    test: &PolicyTest,
    object: &PolicyObject,
    decision: &RequestDecision,
) -> Result<(), String> {
    if let Some(why) = decision.undecided_message() {
        return Err(undecided_failure(&why));
    }
    // A namespace's object can only forbid, so its tests expect Allow where it does not forbid.
    let is_left_open =
        object.key.namespace.is_some() && decision.verdict == RequestVerdict::NotPermitted;
    let actual = match test.decision {
        ExpectedDecision::Abstain => decision.to_expected_decision(true),
        _ if is_left_open => ExpectedDecision::Allow,
        _ => decision.to_expected_decision(false),
    };
    let compared = check_expectation(
        (test.decision, test.policies.as_deref()),
        (actual, &decision.policies),
    );
    // Explain this case: an author of forbids alone expects a request without a forbid to be
    // allowed.
    let unpermitted = actual != test.decision && decision.verdict == RequestVerdict::NotPermitted;
    compared.map_err(|why| match unpermitted {
        true => format!(
            "{why}: no forbid of this object holds, and no permit of it either. A test asks its \
             own object alone; where that leaves it to other policies, expect decision: Abstain"
        ),
        false => why,
    })
}
