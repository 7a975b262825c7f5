//! A job that something else is about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A job that something else is about.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
#[serde(rename_all = "camelCase")]
pub struct JobRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}
