//! An amount of a resource.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// An amount of a resource.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Amount {
    /// Kubernetes name of the resource.
    pub resource: String,
    /// Amount of the resource.
    pub amount: Quantity,
}
