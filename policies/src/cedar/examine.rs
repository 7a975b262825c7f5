//! An object by itself, as whoever writes it wants to see it.

use super::compile;
use super::inline::Tested;
use super::object::PolicyObject;
use super::problem::Problem;
use super::set::Loader;

/// An object whose policies could take effect, and what its tests say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examined {
    /// Ids of its policies.
    pub policy_ids: Vec<String>,
    /// Its tests, in their order.
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
