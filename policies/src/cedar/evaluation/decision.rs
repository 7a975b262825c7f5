//! The decision about one request.

use std::fmt;

use trellis_api::job_policy::ExpectedDecision;
use trellis_api::{Enforcement, Reason};

use crate::denial::join_first;

/// The decision about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestDecision {
    /// The verdict: allowed, forbidden, not permitted or undecided.
    pub verdict: RequestVerdict,
    /// Ids of the policies that decide it: permits that allow it, or forbids that
    /// deny it. Sorted.
    pub policies: Vec<String>,
    /// Those of them that evict a running job: forbids of objects with `onViolation: Evict`.
    pub evicting_policies: Vec<String>,
    /// Policies that could not be evaluated: the policy's id and the reason. Sorted.
    pub errors: Vec<String>,
    /// The policy that is missing, if no policy permits the request.
    pub missing_permit: Option<String>,
    /// Results of policies that are enforced as Warn or Audit and do not decide. Sorted.
    pub unenforced: Vec<UnenforcedResult>,
}

/// The verdict on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestVerdict {
    /// A policy permits it, none forbids it, and all could be evaluated.
    Allowed,
    /// A policy forbids it.
    Forbidden,
    /// No policy permits it.
    NotPermitted,
    /// The policies could not decide, so the request is not allowed.
    Undecided(UndecidedReason),
}

/// Why the policies could not decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndecidedReason {
    /// The policies have not been read yet.
    NotSynced,
    /// Policy objects that reach this namespace are invalid, and never were valid.
    Invalid(Vec<String>),
    /// The policies of the namespace exceed a bound, so none of them is evaluated. Names the bound
    /// and the fix.
    BoundExceeded(String),
    /// A policy could not be evaluated.
    EvaluationError,
    /// The request could not be put together.
    InvalidRequest(String),
}

/// Result of a policy that does not decide: the denial that it would cause, or why it failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnenforcedResult {
    /// Warn or Audit.
    pub enforcement: Enforcement,
    /// Ids of the policies that would deny it.
    pub policies: Vec<String>,
    /// Policies that could not be evaluated: the policy's id and the reason.
    pub errors: Vec<String>,
}

impl RequestDecision {
    /// True if it may.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.verdict == RequestVerdict::Allowed
    }

    /// The decision in the terms of a test. `abstains`: the test distinguishes a request that no
    /// policy permits or forbids from a forbidden one.
    #[must_use]
    pub fn to_expected_decision(&self, abstains: bool) -> ExpectedDecision {
        match self.verdict {
            RequestVerdict::Allowed => ExpectedDecision::Allow,
            RequestVerdict::NotPermitted if abstains => ExpectedDecision::Abstain,
            _ => ExpectedDecision::Deny,
        }
    }

    pub(crate) fn from_undecided(why: UndecidedReason) -> Self {
        Self {
            verdict: RequestVerdict::Undecided(why),
            policies: Vec::new(),
            evicting_policies: Vec::new(),
            errors: Vec::new(),
            missing_permit: None,
            unenforced: Vec::new(),
        }
    }

    /// Describes why the policies could not decide. None: they decided.
    #[must_use]
    pub fn undecided_message(&self) -> Option<String> {
        let RequestVerdict::Undecided(why) = &self.verdict else {
            return None;
        };
        Some(match why {
            UndecidedReason::EvaluationError => join_first(&self.errors, "; "),
            why => why.to_string(),
        })
    }
}

impl UndecidedReason {
    /// The reason, as a condition bears it.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::NotSynced => Reason::CacheNotReady,
            Self::Invalid(_)
            | Self::BoundExceeded(_)
            | Self::EvaluationError
            | Self::InvalidRequest(_) => Reason::PolicyNotEvaluated,
        }
    }
}

impl fmt::Display for UndecidedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSynced => f.write_str("the policies have not been read yet"),
            Self::Invalid(objects) => {
                let names: Vec<_> = objects.iter().map(|o| format!("{o:?}")).collect();
                write!(
                    f,
                    "invalid, and never was valid: policy {}; its status says what is wrong",
                    join_first(&names, ", ")
                )
            }
            Self::BoundExceeded(why) => f.write_str(why),
            Self::EvaluationError => f.write_str("a policy could not be evaluated"),
            Self::InvalidRequest(why) => write!(f, "the request cannot be put together: {why}"),
        }
    }
}
