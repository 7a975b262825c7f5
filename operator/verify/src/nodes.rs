//! The parts of a node that decide which pods it takes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use trellis_api::names;

use crate::resources::{Amounts, amounts};

/// Conditions that Kubernetes itself sets. All but `Ready` are bad if they are true.
const KNOWN_CONDITIONS: [&str; 5] = [
    "Ready",
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "NetworkUnavailable",
];

/// Returns what the pods on the node may request together.
pub(crate) fn allocatable(node: &Node) -> Amounts {
    let status = node.status.as_ref();
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    allocatable.map(amounts).unwrap_or_default()
}

/// Returns true if the node may take other pods than before.
pub(crate) fn has_changed(before: &Node, now: &Node) -> bool {
    fn conditions(node: &Node) -> Vec<(&str, &str)> {
        let all = node.status.iter().flat_map(|status| &status.conditions);
        let all = all.flatten();
        all.map(|condition| (condition.type_.as_str(), condition.status.as_str()))
            .collect()
    }
    fn gates(node: &Node) -> (Option<bool>, Option<&Vec<Taint>>) {
        let spec = node.spec.as_ref();
        let taints = spec.and_then(|spec| spec.taints.as_ref());
        (spec.and_then(|spec| spec.unschedulable), taints)
    }
    before.metadata.uid != now.metadata.uid
        || before.metadata.labels != now.metadata.labels
        || before.metadata.annotations != now.metadata.annotations
        || before.metadata.deletion_timestamp != now.metadata.deletion_timestamp
        || gates(before) != gates(now)
        || allocatable(before) != allocatable(now)
        || conditions(before) != conditions(now)
}

/// Returns true if nothing that the node shows keeps pods away that tolerate the taints with these
/// keys. False also for a node with a sign that is not known here.
pub(crate) fn is_open(node: &Node, tolerated: &[&str]) -> bool {
    let spec = node.spec.clone().unwrap_or_default();
    let mut taints = spec.taints.iter().flatten();
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    let conditions = conditions.map(Vec::as_slice).unwrap_or_default();
    let is_ready =
        |condition: &NodeCondition| condition.type_ == "Ready" && condition.status == "True";
    let is_good = |condition: &NodeCondition| {
        KNOWN_CONDITIONS.contains(&condition.type_.as_str())
            && (condition.type_ == "Ready" || condition.status == "False")
    };
    let labels = node.metadata.labels.iter().flatten();
    // Trellis reserves room for DaemonSets on its own nodes.
    let is_dedicated = labels
        .into_iter()
        .any(|(key, _)| key == names::DEDICATED_NODE);
    node.metadata.deletion_timestamp.is_none()
        && spec.unschedulable != Some(true)
        && taints.all(|taint| tolerated.contains(&taint.key.as_str()))
        && conditions.iter().any(is_ready)
        && conditions.iter().all(is_good)
        && !is_dedicated
}

/// Returns true if the node has these labels.
pub(crate) fn has_labels(node: &Node, wanted: &BTreeMap<String, String>) -> bool {
    let labels = node.metadata.labels.as_ref();
    let has = |(key, value): (&String, &String)| {
        labels.is_some_and(|labels| labels.get(key) == Some(value))
    };
    wanted.iter().all(has)
}
