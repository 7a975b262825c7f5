//! Examines one object alone, for its author.

use super::compile;
use super::inline::Tested;
use super::object::PolicyObject;
use super::problem::Problem;
use super::set::Loader;

/// An object without problems, and its test results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examined {
    /// Ids of its policies.
    pub policy_ids: Vec<String>,
    /// Results of its tests, in their order.
    pub tests: Vec<Tested>,
    /// Warnings: text that takes effect and does less than it seems to.
    pub warnings: Vec<Problem>,
}

impl Loader {
    /// Examines one object as loading it does; failed tests are reported and stop nothing.
    ///
    /// # Errors
    /// Lists every problem that keeps the policies from taking effect, except failed tests.
    pub fn examine(&self, object: &PolicyObject) -> Result<Examined, Vec<Problem>> {
        let (result, warnings) = compile::examine(self.schema(), object);
        let (compiled, tests) = result?;
        Ok(Examined {
            policy_ids: compiled.ids().collect(),
            tests,
            warnings,
        })
    }
}
