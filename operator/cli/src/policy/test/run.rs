//! Runs tests.
//! Tests of a policy object evaluate this object alone; tests of a file evaluate several objects
//! together.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::TrainingJob;
use trellis_api::document::Problem;
use trellis_policies::cedar::{Examination, Policies, PolicyLoader, PolicyObject};

use super::case_result::CaseResult;
use super::report::{PolicyCoverage, TestReport, TestRun};
use super::test_file::{self, TestSuite};
use super::unknown_names::unknown_name_problems;
use crate::plan::input::PlanInput;
use crate::plan::snapshot::ClusterSnapshot;
use crate::policy;
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
            let result = CaseResult::run_case(case, job.as_ref(), &policies, &facts);
            let at = suite.source.problem(&format!("spec.tests[{i}]"), "");
            TestRun {
                file: suite.source.file.clone(),
                line: at.line,
                of: suite.name.clone(),
                name: case.name.clone(),
                passed: result.failure.is_none(),
                failure: result.failure,
                policies: result.policies,
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
    let requested = suite.spec.policies.as_ref();
    let chosen = written.iter().filter(|written| {
        let key = written.object.key.to_string();
        requested.is_none_or(|names| names.contains(&key))
    });
    let objects = chosen.map(|written| PolicyObject {
        tests: Vec::new(),
        ..written.object.clone()
    });
    loader.load(None, objects.collect()).0
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
