//! Runs one test, and compares its result with the expected decision.

use std::collections::BTreeSet;

use trellis_api::job_policy::ExpectedDecision;
use trellis_api::{TrainingJob, names};
use trellis_policies::cedar::{
    NotAuthorized, Policies, RequestDecision, Requester, check_expectation, undecided_failure,
};

use super::test_file::PolicyTestCase;
use crate::plan::snapshot::ClusterSnapshot;
use crate::policy::decisions::JobToDecide;

/// The result of one test.
#[derive(Default)]
pub(super) struct CaseResult {
    /// Every policy that contributed to the result.
    pub(super) policies: Vec<String>,
    pub(super) failure: Option<String>,
}

impl CaseResult {
    pub(super) fn run_case(
        case: &PolicyTestCase,
        job: Option<&TrainingJob>,
        policies: &Policies,
        facts: &ClusterSnapshot,
    ) -> Self {
        match (&case.request, job) {
            (Some(request), _) => match policies.decide_test_request(request) {
                Ok(decision) => Self::check_request(case, &decision),
                Err(problem) => Self::from_failure(format!("{}: {}", problem.message, problem.fix)),
            },
            (None, Some(job)) => Self::check_job(case, job, policies, facts),
            (None, None) => Self::from_failure("has neither a request nor a job".to_owned()),
        }
    }

    fn from_failure(reason: String) -> Self {
        Self {
            policies: Vec::new(),
            failure: Some(reason),
        }
    }

    fn check_request(case: &PolicyTestCase, decision: &RequestDecision) -> Self {
        let unenforced = unenforced_policies([decision]);
        let result = match decision.undecided_message() {
            Some(reason) => Err(undecided_failure(&reason)),
            None => {
                let result =
                    decision.to_expected_decision(case.decision == ExpectedDecision::Abstain);
                check_expectation(
                    (case.decision, case.policies.as_deref()),
                    (result, &decision.policies),
                )
            }
        };
        let result = result.map_err(|reason| match &decision.missing_permit {
            Some(hint) => format!("{reason}\nno policy permits it; this one would: {hint}"),
            None => reason,
        });
        Self {
            failure: result
                .and_then(|()| check_unenforced(case, &unenforced))
                .err(),
            policies: decision
                .policies
                .iter()
                .cloned()
                .chain(unenforced)
                .collect(),
        }
    }

    fn check_job(
        case: &PolicyTestCase,
        job: &TrainingJob,
        policies: &Policies,
        facts: &ClusterSnapshot,
    ) -> Self {
        let requester = case.requester.as_ref().map(|requester| Requester {
            user: requester.user.clone(),
            groups: requester.groups.iter().cloned().collect(),
        });
        let to_decide = JobToDecide {
            job,
            in_cluster: None,
            requester: requester.as_ref(),
        };
        let mut labels = case.namespace_labels.clone();
        // A test cannot override the label with the namespace's name.
        labels.remove(names::NAMESPACE_NAME);
        let stages = match to_decide.judge(policies, facts, &labels) {
            Ok(stages) => stages,
            Err(held) => return Self::from_failure(undecided_failure(&held.message)),
        };
        let decided = || stages.iter().flat_map(|judged| &judged.decision.decisions);
        let decisions = || decided().map(|(_, decision)| decision);
        let refused = stages
            .iter()
            .find_map(|judged| judged.outcome.as_ref().err());
        let is_allowed = refused.is_none();
        let required = decided().filter(|(demanded, _)| !demanded.request.is_optional());
        let deciding = required.filter(|(_, decision)| decision.is_allowed() == is_allowed);
        let deciding: BTreeSet<String> = deciding.flat_map(|(_, d)| d.policies.clone()).collect();
        let deciding: Vec<String> = deciding.into_iter().collect();
        let unenforced = unenforced_policies(decisions());
        let result = match refused {
            Some(NotAuthorized::Undecided { message, .. }) => Err(undecided_failure(message)),
            _ => check_expectation(
                (case.decision, case.policies.as_deref()),
                (job_decision(case, decisions(), is_allowed), &deciding),
            ),
        };
        let result = result.map_err(|reason| match refused {
            Some(NotAuthorized::Denied(denial)) => {
                let denials = denial.lines().replace('\n', "\n  ");
                format!("{reason}\n  {denials}")
            }
            _ => reason,
        });
        let denied: BTreeSet<String> = decided()
            .filter(|(_, decision)| !decision.is_allowed())
            .map(|(demanded, _)| demanded.request.action().as_str().to_owned())
            .collect();
        let result = result
            .and_then(|()| check_denied(case, &denied))
            .and_then(|()| check_unenforced(case, &unenforced));
        let all = decisions().flat_map(|d| d.policies.clone());
        Self {
            failure: result.err(),
            policies: all
                .chain(unenforced)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
        }
    }
}

/// Returns the decision about a whole job, in the terms of its test.
fn job_decision<'a>(
    case: &PolicyTestCase,
    mut decisions: impl Iterator<Item = &'a RequestDecision>,
    is_allowed: bool,
) -> ExpectedDecision {
    let abstains = case.decision == ExpectedDecision::Abstain;
    match is_allowed {
        true => ExpectedDecision::Allow,
        false
            if abstains
                && !decisions.any(|d| d.to_expected_decision(true) == ExpectedDecision::Deny) =>
        {
            ExpectedDecision::Abstain
        }
        false => ExpectedDecision::Deny,
    }
}

/// Returns the Warn and Audit policies that would deny something.
fn unenforced_policies<'a>(
    decisions: impl IntoIterator<Item = &'a RequestDecision>,
) -> BTreeSet<String> {
    let unenforced = decisions.into_iter().flat_map(|d| &d.unenforced);
    unenforced.flat_map(|b| b.policies.clone()).collect()
}

fn check_unenforced(case: &PolicyTestCase, denied: &BTreeSet<String>) -> Result<(), String> {
    let Some(expected) = &case.would_deny else {
        return Ok(());
    };
    let expected: BTreeSet<_> = expected.iter().cloned().collect();
    if expected == *denied {
        return Ok(());
    }
    Err(format!("expected a denial by {expected:?}, got {denied:?}"))
}

fn check_denied(case: &PolicyTestCase, denied: &BTreeSet<String>) -> Result<(), String> {
    let Some(expected) = &case.denied else {
        return Ok(());
    };
    let expected: BTreeSet<_> = expected
        .iter()
        .map(|action| format!("{action:?}"))
        .collect();
    if expected == *denied {
        return Ok(());
    }
    Err(format!("expected denials of {expected:?}, got {denied:?}"))
}
