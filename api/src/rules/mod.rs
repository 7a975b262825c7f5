//! The rules of validation, each with its words and, where CEL can say it,
//! its CEL expression. The CRD carries the expression, the library the
//! function beside it; both answer with the same words: what the rule is, and
//! how to satisfy it.

mod container;
mod job;
mod names;
mod policy;
mod quantities;

pub use container::*;
pub use job::*;
pub use names::*;
pub use policy::*;
pub use quantities::*;

pub(crate) use container::OF_THE_WHOLE;
pub(crate) use names::{own_annotations, own_labels};

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
