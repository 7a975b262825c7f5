//! [`QuotaLedger`]: the GPU time that was used under a QuotaPolicy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// GPU time used under the QuotaPolicy of the same name, which owns the ledger.
///
/// Only the operator writes this object, and it reads it when it becomes leader. The kind is not
/// part of the API. The account is in `spec`, like the holder of a Lease: one writer creates and
/// replaces the whole object, and no controller reconciles towards it. A `status` would need a
/// second request at creation, and the ledger would be empty in between.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "QuotaLedger",
    plural = "quotaledgers",
    shortname = "qledger",
    category = "trellis",
    derive = "PartialEq",
    doc = "GPU time used under the QuotaPolicy of the same name. Only the operator writes it; not part of the API.",
    printcolumn(name = "Until", type_ = "string", json_path = ".spec.until"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct QuotaLedgerSpec {
    /// Time until which the entries count GPU time. Only the operator writes QuotaLedgers: none of
    /// their fields is part of the API.
    pub until: Time,
    /// GPU time that was used, by holder and part of the window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub entries: Vec<LedgerEntry>,
}

/// GPU time that one holder used in one part of the window.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// User who holds the limit. Absent: the subject as a whole; empty: all unknown users together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// Start of this part of the window.
    pub start: Time,
    /// GPU-seconds that were used in this part.
    pub gpu_seconds: Quantity,
}
