//! Why a job may not run.

use std::fmt;

/// At most this many items are listed, because the message goes into the job's status repeatedly.
pub(crate) const MAX_LISTED: usize = 20;

/// Joins the first items, and adds how many more there are.
pub(crate) fn join_first<T: fmt::Display>(all: &[T], between: &str) -> String {
    let shown: Vec<_> = all
        .iter()
        .take(MAX_LISTED)
        .map(ToString::to_string)
        .collect();
    let shown = shown.join(between);
    match all.len().saturating_sub(MAX_LISTED) {
        0 => shown,
        more => format!("{shown}{between}and {more} more"),
    }
}

/// Rules that no policy can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FixedRule {
    /// The facts must be those of the job's own queue and namespace.
    FactsOfTheJob,
    /// The priority is one that users may have.
    UserPriority,
    /// Every field of the final pods is on the list of those that pods of jobs have.
    FinalPod,
}

impl FixedRule {
    /// Name of the rule in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FactsOfTheJob => "facts-of-the-job",
            Self::UserPriority => "user-priority",
            Self::FinalPod => "final-pod",
        }
    }
}

impl fmt::Display for FixedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The rule or policy that denies a demand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DenialSource {
    /// A rule that no policy can change.
    Rule(FixedRule),
    /// Policies that forbid it, by their ids.
    Policies(Vec<String>),
    /// No policy permits it.
    NoPermit,
    /// A QuotaPolicy, by its name.
    Quota(String),
}

impl fmt::Display for DenialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => write!(f, "the rule {rule} denies"),
            Self::Policies(ids) => {
                let (word, verb) = match ids.as_slice() {
                    [_] => ("policy", "forbids"),
                    _ => ("policies", "forbid"),
                };
                let ids: Vec<_> = ids.iter().map(|id| format!("{id:?}")).collect();
                write!(f, "the {word} {} {verb}", join_first(&ids, ", "))
            }
            Self::NoPermit => f.write_str("no policy permits"),
            Self::Quota(name) => write!(f, "the quota policy {name:?} denies"),
        }
    }
}

/// One demand that is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule or policy that denies the demand.
    pub source: DenialSource,
    /// The demand, in words.
    pub demand: String,
    /// How to avoid the refusal.
    pub remedy: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source: by,
            demand,
            remedy,
        } = self;
        write!(f, "{demand}, which {by}: {remedy}")
    }
}

/// Every denied demand of a job. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial(Vec<Refusal>);

impl Denial {
    /// None where nothing is denied.
    pub(crate) fn new(refusals: Vec<Refusal>) -> Option<Self> {
        (!refusals.is_empty()).then_some(Self(refusals))
    }

    /// The first refusals, one on each line, and how many more there are.
    #[must_use]
    pub fn lines(&self) -> String {
        join_first(&self.0, "\n")
    }

    /// The refusals: those of rules first.
    #[must_use]
    pub fn refusals(&self) -> &[Refusal] {
        &self.0
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&join_first(&self.0, "; "))
    }
}

impl std::error::Error for Denial {}
