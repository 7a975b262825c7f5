//! The inputs of a decision, and the decision.

use std::sync::Arc;

use trellis_compiler::Settings;
use trellis_dispatch::context::Context;
use trellis_policies::cedar::{Policies, PolicyLoader};

use super::answer::ReviewAnswer;

/// Everything that a decision depends on.
#[derive(Clone)]
pub(super) struct Judge {
    pub(super) context: Arc<Context>,
    /// The policies in force.
    pub(super) policies: Option<Arc<Policies>>,
    pub(super) loader: PolicyLoader,
    pub(super) settings: Arc<Settings>,
}

/// Decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JudgedRequest {
    pub(super) answer: ReviewAnswer,
    /// True if the decision depends on other objects, whose cached state may be a moment old.
    pub(super) may_be_behind: bool,
}

impl JudgedRequest {
    /// Returns a decision that does not depend on other objects.
    pub(super) fn independent(answer: ReviewAnswer) -> Self {
        Self {
            answer,
            may_be_behind: false,
        }
    }
}
