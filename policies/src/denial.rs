//! What is said of a job that may not run.

use std::fmt;

/// Rules that no policy can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// What is decided on is what is known of the job's own queue and namespace.
    FactsOfTheJob,
    /// The priority is one that users may have.
    UserPriority,
}

impl Rule {
    /// Its name, as messages bear it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FactsOfTheJob => "facts-of-the-job",
            Self::UserPriority => "user-priority",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who denies a demand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// A rule that no policy can change.
    Rule(Rule),
    /// Policies that forbid it, by their ids.
    Policies(Vec<String>),
    /// That no policy permits it.
    NoPermit,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => write!(f, "the rule {rule} denies"),
            Self::Policies(ids) => {
                let (word, verb) = match ids.as_slice() {
                    [_] => ("policy", "forbids"),
                    _ => ("policies", "forbid"),
                };
                let ids: Vec<_> = ids.iter().map(|id| format!("{id:?}")).collect();
                write!(f, "the {word} {} {verb}", ids.join(", "))
            }
            Self::NoPermit => f.write_str("no policy permits"),
        }
    }
}

/// One demand that is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Who denies it.
    pub by: By,
    /// What is demanded, in words.
    pub demand: String,
    /// The way out.
    pub remedy: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { by, demand, remedy } = self;
        write!(f, "{demand}, which {by}: {remedy}")
    }
}

/// Everything about a job that is denied. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial(Vec<Refusal>);

impl Denial {
    /// None where nothing is denied.
    pub(crate) fn new(refusals: Vec<Refusal>) -> Option<Self> {
        (!refusals.is_empty()).then_some(Self(refusals))
    }

    /// The refusals: those of rules first.
    #[must_use]
    pub fn refusals(&self) -> &[Refusal] {
        &self.0
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, refusal) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{refusal}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Denial {}
