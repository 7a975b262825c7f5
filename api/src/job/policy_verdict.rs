//! The policy decision about a job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::words::{lenient_word, open_word};

/// Policy decision about a job. Each list has at most 20 entries.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PolicyVerdict {
    /// Allowed, Denied or Undecided. For a running job: the decision if it were submitted now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<PolicyDecision>,
    /// User who wrote the spec, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// Why the operator rejects the job's requester annotation. The requester is then unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester_unknown: Option<String>,
    /// Hash of all policies that were in effect at the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_hash: Option<String>,
    /// Ids of the deciding policies: permits that allow the job, or forbids that deny it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub policies: Vec<String>,
    /// Permits that are missing, ready to be copied into a policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub missing_permits: Vec<String>,
    /// Errors during policy evaluation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub errors: Vec<String>,
    /// Requests that policies with enforcement Warn would deny.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub warnings: Vec<String>,
}

/// Policy decision about a whole job.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyDecision {
    /// The job may run.
    Allowed,
    /// The job may not run until the job or a policy changes.
    Denied,
    /// The decision is still open, and nothing is allowed yet.
    Undecided,
    /// A value that another version of Trellis wrote.
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

    /// Returns the decision as it appears in status.
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
