//! What is said of a job that may not run.

use std::fmt;

/// The fixed rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The queue's `namespaceSelector` selects the job's namespace.
    QueueSelectsNamespace,
    /// The priority is one that users may have.
    UserPriority,
    /// The final pods ask for no privilege that is not granted.
    PodSecurity,
}

impl Rule {
    /// Its name, as messages bear it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueSelectsNamespace => "queue-selects-namespace",
            Self::UserPriority => "user-priority",
            Self::PodSecurity => "pod-security",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One demand that is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule that denies it.
    pub rule: Rule,
    /// What is demanded, in words.
    pub demand: String,
    /// The way out.
    pub remedy: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rule,
            demand,
            remedy,
        } = self;
        write!(f, "{demand}, which the rule {rule} denies: {remedy}")
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

    /// The refusals, in the order of the rules.
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
