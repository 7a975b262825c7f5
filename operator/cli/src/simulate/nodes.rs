//! Nodes as a simulation has them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::node::PODS;
use trellis_simulate::pattern::expand;
use trellis_simulate::scenario::NodePattern;

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
