//! A job that something else is about.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GangName;

/// A job that something else is about. Written out it is as messages name it: `team/llm`,
/// `team/PodGroup/sweep`.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
#[serde(rename_all = "camelCase")]
pub struct JobRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name; of pods that others have made `podgroup.<name>` or `pod.<name>`, as its JobState
    /// is called.
    pub name: String,
}

impl fmt::Display for JobRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = GangName::from_object_name(&self.name);
        write!(out, "{}/{name}", self.namespace)
    }
}
