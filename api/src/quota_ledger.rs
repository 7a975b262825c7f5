//! [`QuotaLedger`]: the GPU time that was burnt under a QuotaPolicy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// The GPU time that was burnt under the QuotaPolicy of the same name, which owns the ledger.
///
/// The operator alone writes it, and reads it when it begins to lead: it is not part of the API.
/// The account stands in `spec`, as the holder of a Lease does: its one writer creates and changes
/// it whole, and nothing reconciles towards it. In `status` it would take a second request to
/// create one, and the ledger would be empty in between.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "QuotaLedger",
    plural = "quotaledgers",
    shortname = "qledger",
    category = "trellis",
    derive = "PartialEq",
    doc = "The GPU time that was burnt under the QuotaPolicy of the same name. Written by the operator; not part of the API.",
    printcolumn(name = "Until", type_ = "string", json_path = ".spec.until"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct QuotaLedgerSpec {
    /// Time until which the entries count GPU time. The operator alone writes QuotaLedgers: no
    /// field of them is part of the API.
    pub until: Time,
    /// GPU time that was burnt, by holder and part of the window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub entries: Vec<LedgerEntry>,
}

/// GPU time that one holder burnt in one part of the window.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// The user. Absent: the subject as a whole; empty: all unknown users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// Start of this part of the window.
    pub start: Time,
    /// GPU-seconds that were burnt in it.
    pub gpu_seconds: Quantity,
}
