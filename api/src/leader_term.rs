//! [`LeaderTerm`]: the replica of the operator that leads, as the API server knows it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// Name of the only LeaderTerm, in the namespace of the operator.
pub const LEADER_TERM_NAME: &str = "trellis-operator";

/// The term of the replica that leads. The admission policy `trellis-leader` compares the writes of
/// the operator with it.
///
/// Only the operator writes this object: each new leader does, right after it has taken the Lease.
/// The kind is not part of the API. A Lease cannot take its place: when the last policy with a
/// parameter of a built-in kind is deleted, the API server stops reading this kind for policies,
/// and a later policy compares with what was read before.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "LeaderTerm",
    plural = "leaderterms",
    shortname = "tterm",
    category = "trellis",
    namespaced,
    derive = "PartialEq",
    doc = "The term of the operator's replica that leads. Only the operator writes it; not part of the API.",
    validation = rules::TERM_EPOCH_RISES.to_cel_rule(),
    printcolumn(name = "Epoch", type_ = "integer", json_path = ".spec.epoch"),
    printcolumn(name = "Pod", type_ = "string", json_path = ".spec.pod.name"),
    printcolumn(name = "Since", type_ = "date", json_path = ".spec.since"),
)]
#[serde(rename_all = "camelCase")]
pub struct LeaderTermSpec {
    /// Epoch of the leader: the transitions of its Lease, plus 1. It rises with every change of
    /// this object. Only the operator writes LeaderTerms: none of their fields is part of the API.
    pub epoch: i64,
    /// Holder of the Lease in this term: one process of the operator.
    #[schemars(length(max = 512))]
    pub identity: String,
    /// The pod in the token of the leader. Absent: the token belongs to no pod, and the admission
    /// policy compares only epochs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<LeaderPod>,
    /// Time when the leader wrote this epoch.
    pub since: Time,
}

/// The pod in the token of a leader.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LeaderPod {
    /// Name of the pod.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Uid of the pod, by which the admission policy recognizes it.
    #[schemars(length(max = 128))]
    pub uid: String,
}
