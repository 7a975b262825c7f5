//! The rules of validation, each with its words and, where CEL can say it,
//! its CEL expression. The CRD carries the expression, the library the
//! function beside it; both answer with the same words: what the rule is, and
//! how to satisfy it.

mod container;
mod job;
mod names;
mod quantities;

use crate::validate::Violation;

pub use container::*;
pub use job::*;
pub use names::*;
pub use quantities::*;

pub(crate) use container::OF_THE_WHOLE;
pub(crate) use names::{own_annotations, own_labels};

/// Rules on several fields: one of them alone does not break them.
const ON_SEVERAL: [Rule; 16] = [
    POD_NAME,
    GROUP_COUNT,
    UNIQUE_GROUPS,
    ONE_COORDINATOR,
    POD_TOTAL,
    RESERVED_ENV,
    BACKOFF,
    QUOTA_COVERS,
    UNIQUE_QUOTA_RESOURCES,
    BORROW_WITHIN,
    MAX_PRIORITY,
    UNIQUE_MOUNTS,
    UNIQUE_PORTS,
    UNIQUE_ENV,
    UNIQUE_LEVELS,
    ONE_DEVICE_COUNT,
];

/// True of a violation that may be another field's fault than that which it names.
pub(crate) fn is_on_several(violation: &Violation) -> bool {
    let mut rules = ON_SEVERAL.iter().chain(&OF_THE_WHOLE);
    rules.any(|rule| rule.message == violation.message)
}

/// One rule: its CEL expression and its words.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    cel: &'static str,
    message: &'static str,
}

impl Rule {
    const fn new(cel: &'static str, message: &'static str) -> Self {
        Self { cel, message }
    }

    /// The rule for a CRD's `x-kubernetes-validations`.
    #[must_use]
    pub fn cel(&self) -> kube::core::Rule {
        kube::core::Rule::new(self.cel).message(self.message)
    }

    /// The words that a refusal by this rule bears.
    #[must_use]
    pub const fn message(&self) -> &'static str {
        self.message
    }

    /// The same rule, decided here.
    fn holds(&self, ok: bool) -> garde::Result {
        if ok {
            Ok(())
        } else {
            Err(garde::Error::new(self.message))
        }
    }
}
