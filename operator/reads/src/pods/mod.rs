//! Pods of a job: identity and state. Pure.

mod missing_pods;
mod pod_state;
mod ranks;

pub use missing_pods::{MissingPods, find_missing};
pub use pod_state::{PodHealth, PodState, read_state};
pub use ranks::{StageRanks, group_stage};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use serde::Serialize;
use trellis_api::names;
use trellis_api::pod_template::MAIN_CONTAINER;

/// A pod of a job, as the commands show it.
#[derive(Serialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodLine {
    /// The name.
    pub name: String,
    /// The task group.
    pub group: String,
    /// The index in the task group.
    pub index: u32,
    /// The rank in its stage: `TRELLIS_RANK`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The attempt.
    pub attempt: i64,
    /// Number of pod replacements in the attempt before this pod.
    /// Absent: the pod belongs to the first pods of the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<i64>,
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The state.
    #[serde(flatten)]
    pub state: PodState,
    /// The time of creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
}

impl PodLine {
    /// Reads a pod. Returns None if the pod has no label of a task group.
    #[must_use]
    pub fn from_pod(pod: &Pod) -> Option<Self> {
        let meta = &pod.metadata;
        let round = meta.annotations.as_ref().and_then(|a| a.get(names::ROUND));
        let spec = pod.spec.as_ref();
        Some(Self {
            name: meta.name.clone()?,
            group: label(meta, names::GROUP)?.to_owned(),
            index: label(meta, names::INDEX)?.parse().ok()?,
            rank: pod_rank(pod),
            attempt: pod_attempt(pod),
            round: round.and_then(|round| round.parse().ok()),
            node: spec.and_then(|spec| spec.node_name.clone()),
            state: read_state(pod),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
        })
    }
}

/// Returns the value of a label.
#[must_use]
pub fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

/// Returns the attempt of a pod; 0 if the pod has no such label.
#[must_use]
pub fn pod_attempt(pod: &Pod) -> i64 {
    let attempt = label(&pod.metadata, names::ATTEMPT);
    attempt.and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Returns the rank in the pod's environment.
/// It stays the same for the life of the pod. In an elastic group, `replicas` and the ranks of
/// later pods may have changed since.
#[must_use]
pub fn pod_rank(pod: &Pod) -> Option<u32> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut main = containers.filter(|container| container.name == MAIN_CONTAINER);
    let env = main.next()?.env.as_ref()?;
    let rank = env.iter().find(|var| var.name == "TRELLIS_RANK")?;
    rank.value.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests;
