//! Examines one object alone: compiles its text and runs its tests.

mod expectation;
mod inline_tests;
mod test_request;

use super::object::compile::{self, CompiledPolicies, MAX_PROBLEMS};
use super::object::{PolicyObject, bounds};
use super::problem::PolicyProblem;
use super::request::PolicySchema;

pub use expectation::{check_expectation, undecided_failure};
pub use inline_tests::PolicyTestResult;
pub(crate) use test_request::ParsedTestRequest;

/// An object without problems, and its test results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examination {
    /// Ids of its policies.
    pub policy_ids: Vec<String>,
    /// Results of its tests, in their order.
    pub tests: Vec<PolicyTestResult>,
    /// Warnings: text that takes effect and does less than it seems to.
    pub warnings: Vec<PolicyProblem>,
}

/// Result of compiling an object.
pub(crate) struct CompileResult {
    pub(crate) result: Result<CompiledPolicies, Vec<PolicyProblem>>,
    pub(crate) warnings: Vec<PolicyProblem>,
}

/// Compiles an object. The returned policies have passed every check.
pub(crate) fn compile_object(schema: &PolicySchema, object: &PolicyObject) -> CompileResult {
    let (result, warnings) = examine_object(schema, object);
    let passed = |(compiled, tests): (CompiledPolicies, Vec<PolicyTestResult>)| {
        let failed = tests.into_iter().filter_map(PolicyTestResult::into_problem);
        let failed: Vec<_> = failed.take(MAX_PROBLEMS).collect();
        if failed.is_empty() {
            Ok(compiled)
        } else {
            Err(failed)
        }
    };
    CompileResult {
        result: result.and_then(passed),
        warnings,
    }
}

/// Compiled policies and their test results, or the problems of the object.
pub(crate) type ExamineResult =
    Result<(CompiledPolicies, Vec<PolicyTestResult>), Vec<PolicyProblem>>;

/// Compiles an object and runs its tests, whether they pass or fail. Also returns warnings.
pub(crate) fn examine_object(
    schema: &PolicySchema,
    object: &PolicyObject,
) -> (ExamineResult, Vec<PolicyProblem>) {
    let mut warnings = Vec::new();
    let result = compile::check_object(object).and_then(|need| {
        bounds::with_stack(need, || {
            let compiled = compile::compile_policies(schema, object, need, &mut warnings)?;
            let tests = inline_tests::run_tests(schema, object, &compiled).map_err(|p| vec![p])?;
            Ok((compiled, tests))
        })
    });
    warnings.truncate(MAX_PROBLEMS);
    let result = result.map_err(|mut problems| {
        problems.truncate(MAX_PROBLEMS);
        problems
    });
    (result, warnings)
}
