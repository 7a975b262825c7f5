//! Privileges and unlisted fields found in a pod.

use std::collections::BTreeMap;
use std::fmt;

use crate::Privilege;

/// Privileges, each with the first field that asks for it.
#[derive(Default)]
pub(super) struct PrivilegeFindings(pub(super) BTreeMap<Privilege, String>);

impl PrivilegeFindings {
    pub(super) fn add(&mut self, privilege: Privilege, path: impl Into<String>) {
        self.0.entry(privilege).or_insert_with(|| path.into());
    }

    /// The privilege, if it is asked for.
    pub(super) fn add_if(
        &mut self,
        asked: bool,
        privilege: Privilege,
        path: impl FnOnce() -> String,
    ) {
        if asked {
            self.add(privilege, path());
        }
    }
}

/// A field that a pod of a job may not have, or not with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnlistedField {
    /// The field, within the pod: `spec.priority`.
    pub path: String,
    /// How to avoid the refusal.
    pub remedy: String,
}

impl fmt::Display for UnlistedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.remedy)
    }
}
