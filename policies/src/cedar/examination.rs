//! Examines one object alone, for its author.

use super::compile;
use super::inline_tests::PolicyTestResult;
use super::policy_object::PolicyObject;
use super::policy_set::PolicyLoader;
use super::problem::PolicyProblem;

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

impl PolicyLoader {
    /// Examines one object as loading it does; failed tests are reported and stop nothing.
    ///
    /// # Errors
    /// Lists every problem that keeps the policies from taking effect, except failed tests.
    pub fn examine(&self, object: &PolicyObject) -> Result<Examination, Vec<PolicyProblem>> {
        let (result, warnings) = compile::examine_object(self.schema(), object);
        let (compiled, tests) = result?;
        Ok(Examination {
            policy_ids: compiled.ids().collect(),
            tests,
            warnings,
        })
    }
}
