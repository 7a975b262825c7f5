//! Generates nodes from the patterns of a scenario.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trellis_simulate::name_pattern::expand;
use trellis_simulate::scenario::NodePattern;

use crate::files::node_defaults::DEFAULT_MAX_PODS;

/// Generates the nodes of a pattern.
pub(super) fn expand_pattern(pattern: &NodePattern) -> impl Iterator<Item = Value> {
    let count = usize::try_from(pattern.count.unwrap_or(1)).unwrap_or(0);
    (0..count).map(|index| {
        let labels: BTreeMap<&str, String> = pattern
            .labels
            .iter()
            .map(|(key, value)| (key.as_str(), expand(value, index)))
            .collect();
        let mut allocatable: BTreeMap<&str, &str> = BTreeMap::from([("pods", DEFAULT_MAX_PODS)]);
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
