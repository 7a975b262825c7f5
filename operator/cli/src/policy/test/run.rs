//! Runs tests.
//! Tests of a policy object evaluate this object alone; tests of a file evaluate several objects
//! together.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::document::{self, Problem};
use trellis_api::job_policy::{ExpectedDecision, PolicyTest};
use trellis_api::{TrainingJob, names};
use trellis_policies::cedar::{
    Examination, NotAuthorized, Policies, PolicyLoader, PolicyObject, RequestDecision, Requester,
    check_expectation, undecided_failure,
};

use super::report::{PolicyCoverage, TestReport, TestRun};
use super::test_file::{self, PolicyTestCase, TestSuite};
use crate::plan::input::PlanInput;
use crate::plan::snapshot::ClusterSnapshot;
use crate::policy;
use crate::policy::decisions::JobToDecide;
use crate::policy::input_files::{ParsedFiles, ParsedObject};
use crate::policy::policy_objects::{self, PolicySource};

/// Runs all tests of the files.
/// Returns the results, and notes about facts that users might not expect.
///
/// # Errors
/// All problems of the files.
pub(super) fn run(files: ParsedFiles) -> Result<(TestReport, Vec<String>), Vec<Problem>> {
    let mut problems = files.problems;
    let (facts, mut notes) = read_facts(&files.objects, &mut problems);
    let written = policy_objects::collect_policies(&files.objects);
    let mut suites = Vec::new();
    for found in files.objects.iter().filter_map(TestSuite::from_object) {
        match found {
            Ok(given) => suites.push(given),
            Err(wrong) => problems.extend(wrong),
        }
    }
    let loader = policy::new_loader().map_err(|e| vec![Problem::for_file(e.to_string())])?;
    let good = written.and_then(|all| Ok((policy_objects::examine_all(&loader, &all)?, all)));
    let (examined, written) = match good {
        Ok(good) => good,
        Err(wrong) => {
            problems.extend(wrong);
            return Err(problems);
        }
    };
    if written.is_empty() && problems.is_empty() {
        let message = "no file contains a ClusterJobPolicy or a JobPolicy: name a file with one";
        problems.push(Problem::for_file(message));
    }
    problems.extend(unknown_name_problems(&written, &examined, &suites));
    let mut jobs = Vec::new();
    for suite in &suites {
        jobs.push(suite_jobs(suite, &mut problems));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut tests = Vec::new();
    for (written, examined) in written.iter().zip(&examined) {
        tests.extend(inline_test_runs(written, examined));
        let warnings = examined.warnings.iter();
        notes.extend(warnings.map(|w| format!("warning: {}", written.problem(w))));
    }
    for (suite, jobs) in suites.iter().zip(&jobs) {
        let policies = policies_of_suite(&loader, &written, suite);
        let cases = suite.spec.tests.iter().zip(jobs).enumerate();
        tests.extend(cases.map(|(i, (case, job))| {
            let came = CaseResult::run_case(case, job.as_ref(), &policies, &facts);
            let at = suite.source.problem(&format!("spec.tests[{i}]"), "");
            TestRun {
                file: suite.source.file.clone(),
                line: at.line,
                of: suite.name.clone(),
                name: case.name.clone(),
                passed: came.failure.is_none(),
                failure: came.failure,
                policies: came.policies,
            }
        }));
    }
    let policies = measure_coverage(&written, &examined, &tests);
    Ok((TestReport::new(tests, policies), notes))
}

/// Reads the objects that jobs of tests need, except policies.
fn read_facts(
    pieces: &[ParsedObject],
    problems: &mut Vec<Problem>,
) -> (ClusterSnapshot, Vec<String>) {
    let mut input = PlanInput::default();
    for piece in pieces {
        let source = &piece.source;
        let is_policy = source.is_kind("ClusterJobPolicy") || source.is_kind("JobPolicy");
        if !is_policy && !source.is_kind(test_file::KIND) {
            input.add_document(source.document.clone(), &source.file, true);
        }
    }
    problems.extend(input.problems);
    let mut facts = input.snapshot;
    facts.queues_or_default();
    let notes = input.notes.iter();
    (facts, notes.map(|note| format!("note: {note}")).collect())
}

/// Returns the tests of a policy object, with their results.
fn inline_test_runs(written: &PolicySource, examined: &Examination) -> Vec<TestRun> {
    let tests = examined.tests.iter().enumerate();
    let tests = tests.map(|(i, test)| {
        let (file, line) = written.location(&format!("spec.tests[{i}]"));
        let failure = test.failure.as_ref();
        TestRun {
            file,
            line,
            of: written.object.key.to_string(),
            name: test.name.clone(),
            passed: failure.is_none(),
            failure: failure.map(|problem| problem.message.clone()),
            policies: test.policies.clone(),
        }
    });
    tests.collect()
}

/// Returns the policies for a file of tests.
/// Failed tests of the policies themselves do not matter here.
fn policies_of_suite(
    loader: &PolicyLoader,
    written: &[PolicySource],
    suite: &TestSuite,
) -> Policies {
    let wanted = suite.spec.policies.as_ref();
    let chosen = written.iter().filter(|written| {
        let key = written.object.key.to_string();
        wanted.is_none_or(|names| names.contains(&key))
    });
    let objects = chosen.map(|written| PolicyObject {
        tests: Vec::new(),
        ..written.object.clone()
    });
    loader.load(None, objects.collect()).0
}

/// Reports tests that refer to an unknown policy or object.
fn unknown_name_problems(
    written: &[PolicySource],
    examined: &[Examination],
    suites: &[TestSuite],
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let unknown = |name: &str, what: &str, known: &[&str]| {
        let near = match document::nearest(name, known) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("name one of {}", known.join(", ")),
        };
        format!("there is no {what} {name:?}: {near}")
    };
    for (written, examined) in written.iter().zip(examined) {
        let known: Vec<&str> = examined.policy_ids.iter().map(String::as_str).collect();
        for (i, test) in written.object.tests.iter().enumerate() {
            let PolicyTest { policies, .. } = test;
            for (j, id) in policies.iter().flatten().enumerate() {
                if !known.contains(&id.as_str()) {
                    let field = format!("spec.tests[{i}].policies[{j}]");
                    let message = unknown(id, "policy", &known);
                    problems.push(written.source.source.problem(&field, message));
                }
            }
        }
    }
    let keys: Vec<String> = written.iter().map(|w| w.object.key.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    for suite in suites {
        let wanted = suite.spec.policies.as_ref();
        for (i, name) in wanted.into_iter().flatten().enumerate() {
            if !keys.contains(&name.as_str()) {
                let field = format!("spec.policies[{i}]");
                let message = unknown(name, "policy object", &keys);
                problems.push(suite.source.problem(&field, message));
            }
        }
        let asked = keys.iter().zip(examined);
        let asked = asked
            .filter(|(key, _)| wanted.is_none_or(|names| names.iter().any(|name| name == *key)));
        let known: Vec<&str> = asked
            .flat_map(|(_, e)| e.policy_ids.iter().map(String::as_str))
            .collect();
        for (i, case) in suite.spec.tests.iter().enumerate() {
            for (list, ids) in [
                ("policies", &case.policies),
                ("wouldDeny", &case.would_deny),
            ] {
                for (j, id) in ids.iter().flatten().enumerate() {
                    if !known.contains(&id.as_str()) {
                        let field = format!("spec.tests[{i}].{list}[{j}]");
                        let message = unknown(id, "policy", &known);
                        problems.push(suite.source.problem(&field, message));
                    }
                }
            }
        }
    }
    problems
}

/// Returns the job of each test that has one.
fn suite_jobs(suite: &TestSuite, problems: &mut Vec<Problem>) -> Vec<Option<TrainingJob>> {
    let indices = 0..suite.spec.tests.len();
    let jobs = indices.map(|i| match suite.job(i)? {
        Ok(document) => match document.decode_valid::<TrainingJob>() {
            Ok(mut job) => {
                let namespace = &mut job.metadata.namespace;
                namespace.get_or_insert_with(|| "default".to_owned());
                job.metadata.name = job.likely_name();
                Some(job)
            }
            Err(wrong) => {
                problems.extend(suite.source.to_problems(wrong));
                None
            }
        },
        Err(problem) => {
            problems.push(problem);
            None
        }
    });
    jobs.collect()
}

/// The result of one test.
#[derive(Default)]
struct CaseResult {
    /// Every policy that contributed to the result.
    policies: Vec<String>,
    failure: Option<String>,
}

impl CaseResult {
    fn run_case(
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

    fn from_failure(why: String) -> Self {
        Self {
            policies: Vec::new(),
            failure: Some(why),
        }
    }

    fn check_request(case: &PolicyTestCase, decision: &RequestDecision) -> Self {
        let beside = unenforced_policies([decision]);
        let came = match decision.undecided_message() {
            Some(why) => Err(undecided_failure(&why)),
            None => {
                let came =
                    decision.to_expected_decision(case.decision == ExpectedDecision::Abstain);
                check_expectation(
                    (case.decision, case.policies.as_deref()),
                    (came, &decision.policies),
                )
            }
        };
        let came = came.map_err(|why| match &decision.missing_permit {
            Some(hint) => format!("{why}\nno policy permits it; this one would: {hint}"),
            None => why,
        });
        Self {
            failure: came.and_then(|()| check_unenforced(case, &beside)).err(),
            policies: decision.policies.iter().cloned().chain(beside).collect(),
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
        let asked = JobToDecide {
            job,
            in_cluster: None,
            requester: requester.as_ref(),
        };
        let mut more = case.namespace_labels.clone();
        // A test cannot override the label with the namespace's name.
        more.remove(names::NAMESPACE_NAME);
        let stages = match asked.judge(policies, facts, &more) {
            Ok(stages) => stages,
            Err(held) => return Self::from_failure(undecided_failure(&held.message)),
        };
        let decided = || stages.iter().flat_map(|judged| &judged.decision.decisions);
        let decisions = || decided().map(|(_, decision)| decision);
        let refused = stages
            .iter()
            .find_map(|judged| judged.outcome.as_ref().err());
        let is_allowed = refused.is_none();
        let deciding = decisions().filter(|decision| decision.is_allowed() == is_allowed);
        let deciding: BTreeSet<String> = deciding.flat_map(|d| d.policies.clone()).collect();
        let deciding: Vec<String> = deciding.into_iter().collect();
        let beside = unenforced_policies(decisions());
        let came = match refused {
            Some(NotAuthorized::Undecided { message, .. }) => Err(undecided_failure(message)),
            _ => check_expectation(
                (case.decision, case.policies.as_deref()),
                (job_decision(case, decisions(), is_allowed), &deciding),
            ),
        };
        let came = came.map_err(|why| match refused {
            Some(NotAuthorized::Denied(denial)) => {
                let denials = denial.lines().replace('\n', "\n  ");
                format!("{why}\n  {denials}")
            }
            _ => why,
        });
        let denied: BTreeSet<String> = decided()
            .filter(|(_, decision)| !decision.is_allowed())
            .map(|(demanded, _)| demanded.request.action().as_str().to_owned())
            .collect();
        let came = came
            .and_then(|()| check_denied(case, &denied))
            .and_then(|()| check_unenforced(case, &beside));
        let all = decisions().flat_map(|d| d.policies.clone());
        Self {
            failure: came.err(),
            policies: all
                .chain(beside)
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
    let beside = decisions.into_iter().flat_map(|d| &d.unenforced);
    beside.flat_map(|b| b.policies.clone()).collect()
}

fn check_unenforced(case: &PolicyTestCase, came: &BTreeSet<String>) -> Result<(), String> {
    let Some(wanted) = &case.would_deny else {
        return Ok(());
    };
    let wanted: BTreeSet<_> = wanted.iter().cloned().collect();
    if wanted == *came {
        return Ok(());
    }
    Err(format!("expected a denial by {wanted:?}, got {came:?}"))
}

fn check_denied(case: &PolicyTestCase, came: &BTreeSet<String>) -> Result<(), String> {
    let Some(wanted) = &case.denied else {
        return Ok(());
    };
    let wanted: BTreeSet<_> = wanted.iter().map(|action| format!("{action:?}")).collect();
    if wanted == *came {
        return Ok(());
    }
    Err(format!("expected denials of {wanted:?}, got {came:?}"))
}

/// Returns every policy, and whether it decides something in any test.
fn measure_coverage(
    written: &[PolicySource],
    examined: &[Examination],
    tests: &[TestRun],
) -> Vec<PolicyCoverage> {
    let tested: BTreeSet<&String> = tests.iter().flat_map(|test| &test.policies).collect();
    let mut all = BTreeMap::new();
    for (written, examined) in written.iter().zip(examined) {
        let (file, line) = written.location("metadata.name");
        for id in &examined.policy_ids {
            let policy = PolicyCoverage {
                id: id.clone(),
                file: file.clone(),
                line,
                tested: tested.contains(id),
            };
            all.insert(id.clone(), policy);
        }
    }
    all.into_values().collect()
}
