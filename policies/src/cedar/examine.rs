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
    /// What it says in vain.
    pub warnings: Vec<Problem>,
}

impl Loader {
    /// Looks at one object, as loading it does; tests that fail are told, and stop nothing.
    ///
    /// # Errors
    /// With all that keeps its policies from taking effect, beside tests that fail.
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
