//! The decision about one request.

use std::fmt;

use trellis_api::job_policy::ExpectedDecision;
use trellis_api::{Enforcement, Reason};

use crate::denial::told;

/// The decision about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The verdict: allowed, forbidden, not permitted or undecided.
    pub verdict: Verdict,
    /// Ids of the policies that decide it: permits that allow it, or forbids that
    /// deny it. Sorted.
    pub policies: Vec<String>,
    /// Those of them that evict a running job: forbids of objects with `onViolation: Evict`.
    pub evicting: Vec<String>,
    /// Policies that could not be evaluated: the policy's id and the reason. Sorted.
    pub errors: Vec<String>,
    /// The policy that is missing, if no policy permits the request.
    pub hint: Option<String>,
    /// Results of policies that are enforced as Warn or Audit and do not decide. Sorted.
    pub beside: Vec<Beside>,
}

/// The verdict on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A policy permits it, none forbids it, and all could be evaluated.
    Allowed,
    /// A policy forbids it.
    Forbidden,
    /// No policy permits it.
    NotPermitted,
    /// The policies could not decide, so the request is not allowed.
    Undecided(Undecided),
}

/// Why the policies could not decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// The policies have not been read yet.
    NotSynced,
    /// Policy objects that reach this namespace are invalid, and never were valid.
    Invalid(Vec<String>),
    /// The policies of the namespace exceed a bound, so none of them is evaluated. Names the bound
    /// and the fix.
    Excess(String),
    /// A policy could not be evaluated.
    Error,
    /// The request could not be put together.
    Unmade(String),
}

/// Result of a policy that does not decide: the denial that it would cause, or why it failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Beside {
    /// Warn or Audit.
    pub enforcement: Enforcement,
    /// Ids of the policies that would deny it.
    pub policies: Vec<String>,
    /// Policies that could not be evaluated: the policy's id and the reason.
    pub errors: Vec<String>,
}

impl Decision {
    /// True if it may.
    #[must_use]
    pub fn allows(&self) -> bool {
        self.verdict == Verdict::Allowed
    }

    /// The decision in the terms of a test. `abstains`: the test distinguishes a request that no
    /// policy permits or forbids from a forbidden one.
    #[must_use]
    pub fn outcome(&self, abstains: bool) -> ExpectedDecision {
        match self.verdict {
            Verdict::Allowed => ExpectedDecision::Allow,
            Verdict::NotPermitted if abstains => ExpectedDecision::Abstain,
            _ => ExpectedDecision::Deny,
        }
    }

    pub(super) fn undecided(why: Undecided) -> Self {
        Self {
            verdict: Verdict::Undecided(why),
            policies: Vec::new(),
            evicting: Vec::new(),
            errors: Vec::new(),
            hint: None,
            beside: Vec::new(),
        }
    }

    /// Describes why the policies could not decide. None: they decided.
    #[must_use]
    pub fn why_undecided(&self) -> Option<String> {
        let Verdict::Undecided(why) = &self.verdict else {
            return None;
        };
        Some(match why {
            Undecided::Error => told(&self.errors, "; "),
            why => why.to_string(),
        })
    }
}

impl Undecided {
    /// The reason, as a condition bears it.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::NotSynced => Reason::CacheNotReady,
            Self::Invalid(_) | Self::Excess(_) | Self::Error | Self::Unmade(_) => {
                Reason::PolicyNotEvaluated
            }
        }
    }
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSynced => f.write_str("the policies have not been read yet"),
            Self::Invalid(objects) => {
                let names: Vec<_> = objects.iter().map(|o| format!("{o:?}")).collect();
                write!(
                    f,
                    "invalid, and never was valid: policy {}; its status says what is wrong",
                    told(&names, ", ")
                )
            }
            Self::Excess(why) => f.write_str(why),
            Self::Error => f.write_str("a policy could not be evaluated"),
            Self::Unmade(why) => write!(f, "the request cannot be put together: {why}"),
        }
    }
}
