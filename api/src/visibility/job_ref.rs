//! A reference to a job.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GangName;

/// A reference to a job. It is displayed as in messages: `team/llm`, `team/PodGroup/sweep`.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
#[serde(rename_all = "camelCase")]
pub struct JobRef {
    /// Namespace of the job.
    pub namespace: String,
    /// Name of the job's JobState: for external pods `podgroup.<name>` or `pod.<name>`.
    pub name: String,
}

impl fmt::Display for JobRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = GangName::from_object_name(&self.name);
        write!(out, "{}/{name}", self.namespace)
    }
}
