//! Nodes as a simulation has them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use trellis_api::Quantity;
use trellis_api::document::{Document, Problems};

use crate::simulate::pattern::expand;
use crate::simulate::scenario::NodePattern;
use crate::watch::SlimNode;

/// The most pods of a node that does not say so: the kubelet's default.
const PODS: &str = "110";

/// What a Node has beside what the operator reads of it.
#[derive(Deserialize, Default)]
struct Sized {
    #[serde(default)]
    status: Capacity,
}

#[derive(Deserialize, Default)]
struct Capacity {
    #[serde(default)]
    capacity: BTreeMap<String, Quantity>,
}

/// A Node of a file. What nobody has said is as it would be on a node that is
/// well: it is ready, and what it has may be used.
pub(super) fn settle(document: &Document, node: &mut SlimNode) -> Result<(), Problems> {
    let status = &mut node.status;
    if status.allocatable.is_empty() {
        let capacity = document.decode::<Sized>()?.status.capacity;
        status.allocatable = capacity
            .into_iter()
            .map(|(name, quantity)| {
                let quantity = quantity.as_str().to_owned();
                (
                    name,
                    k8s_openapi::apimachinery::pkg::api::resource::Quantity(quantity),
                )
            })
            .collect();
    }
    let pods = || k8s_openapi::apimachinery::pkg::api::resource::Quantity(PODS.to_owned());
    status
        .allocatable
        .entry("pods".to_owned())
        .or_insert_with(pods);
    if !status.conditions.iter().any(|c| c.type_ == "Ready") {
        let mut ready = status.conditions.first().cloned().unwrap_or_default();
        ready.type_ = "Ready".to_owned();
        ready.status = "True".to_owned();
        status.conditions.push(ready);
    }
    Ok(())
}

/// The nodes that a pattern stands for.
pub(super) fn expanded(pattern: &NodePattern) -> impl Iterator<Item = Value> {
    let count = usize::try_from(pattern.count.unwrap_or(1)).unwrap_or(0);
    (0..count).map(|index| {
        let labels: BTreeMap<&str, String> = pattern
            .labels
            .iter()
            .map(|(key, value)| (key.as_str(), expand(value, index)))
            .collect();
        let mut allocatable: BTreeMap<&str, &str> = BTreeMap::from([("pods", PODS)]);
        for (name, quantity) in &pattern.capacity {
            allocatable.insert(name, quantity.as_str());
        }
        json!({
            "metadata": {"name": expand(&pattern.name, index), "labels": labels},
            "spec": {"taints": pattern.taints},
            "status": {
                "allocatable": allocatable,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        })
    })
}
