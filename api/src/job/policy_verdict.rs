//! What policies have decided about a job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status_word::{lenient_word, open_word};

/// What policies have decided about a job, of each of its lists the first 20.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PolicyVerdict {
    /// Allowed, Denied or Undecided. Of a job that runs: whether it still would be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<PolicyDecision>,
    /// The user who asked, where that is known: who wrote the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// Why the stamp that the job bears is not believed, so that nobody is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester_unknown: Option<String>,
    /// Hash of all policies that took effect when it was decided so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_hash: Option<String>,
    /// Ids of the policies that decide: permits that allow it, or forbids that deny it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub policies: Vec<String>,
    /// Permits that are missing, as they can be copied into a policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub missing_permits: Vec<String>,
    /// Evaluation errors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub errors: Vec<String>,
    /// Requests that policies of enforcement Warn would deny.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub warnings: Vec<String>,
}

/// What is decided about a job as a whole.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyDecision {
    /// It may run.
    Allowed,
    /// It may not, until the job or a policy changes.
    Denied,
    /// Nobody can say yet, and nothing is allowed.
    Undecided,
    /// A word of another version of Trellis.
    Unrecognized,
}

impl PolicyDecision {
    /// Every decision.
    pub const ALL: &'static [Self] = &[
        Self::Allowed,
        Self::Denied,
        Self::Undecided,
        Self::Unrecognized,
    ];

    /// The word itself.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "Allowed",
            Self::Denied => "Denied",
            Self::Undecided => "Undecided",
            Self::Unrecognized => "Unrecognized",
        }
    }
}

open_word!(PolicyDecision);
lenient_word!(PolicyDecision);
