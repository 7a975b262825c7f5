//! Changes that cannot be made.

use std::fmt;

/// A change that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidChange {
    /// Path of the field, such as `spec.changes[0].removeNode.name`.
    pub field: String,
    /// The rule and the fix.
    pub message: String,
}

impl InvalidChange {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }

    /// Returns the same problem of a field below this path.
    pub(crate) fn below(self, path: &str) -> Self {
        Self {
            field: format!("{path}.{}", self.field),
            ..self
        }
    }
}

/// All changes of a forecast that cannot be made, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidChanges(pub Vec<InvalidChange>);

impl fmt::Display for InvalidChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.field, self.message)
    }
}

impl fmt::Display for InvalidChanges {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, change) in self.0.iter().enumerate() {
            if at > 0 {
                out.write_str("; ")?;
            }
            change.fmt(out)?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidChanges {}
