//! So much of a resource.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// So much of a resource.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Amount {
    /// The resource, by its Kubernetes name.
    pub resource: String,
    /// How much.
    pub amount: Quantity,
}
