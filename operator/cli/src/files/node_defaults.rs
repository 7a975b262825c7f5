//! Defaults for nodes that people write into files.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource;
use serde::Deserialize;
use trellis_api::Quantity;
use trellis_api::document::{Document, Problems};
use trellis_gang::observed::SlimNode;

/// Greatest number of pods of a node without its own limit: the kubelet's default.
pub(crate) const DEFAULT_MAX_PODS: &str = "110";

/// The part of a Node's status that the operator does not read.
#[derive(Deserialize, Default)]
struct NodeCapacity {
    #[serde(default)]
    status: NodeCapacityStatus,
}

#[derive(Deserialize, Default)]
struct NodeCapacityStatus {
    #[serde(default)]
    capacity: BTreeMap<String, Quantity>,
}

/// Adds defaults to a Node of a file.
/// Missing fields get the values of a healthy node: it is ready, and all its capacity is
/// allocatable.
pub(crate) fn apply_node_defaults(
    document: &Document,
    node: &mut SlimNode,
) -> Result<(), Problems> {
    let status = &mut node.status;
    if status.allocatable.is_empty() {
        let capacity = document.decode::<NodeCapacity>()?.status.capacity;
        status.allocatable = capacity
            .into_iter()
            .map(|(name, quantity)| {
                let quantity = quantity.as_str().to_owned();
                (name, resource::Quantity(quantity))
            })
            .collect();
    }
    let pods = || resource::Quantity(DEFAULT_MAX_PODS.to_owned());
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

#[cfg(test)]
mod tests {
    use trellis_api::document::split;

    use super::*;

    fn node_with_defaults(status: &str) -> SlimNode {
        let text = format!("apiVersion: v1\nkind: Node\nmetadata: {{name: a}}\nstatus: {status}\n");
        let document = split(&text).unwrap().remove(0);
        let mut node = document.decode().unwrap();
        apply_node_defaults(&document, &mut node).unwrap();
        node
    }

    #[test]
    fn unset_node_fields_default_to_a_healthy_node() {
        let written = node_with_defaults("{capacity: {cpu: 8}}");
        assert!(written.is_ready());
        let allocatable = written.status.allocatable;
        assert_eq!(
            (
                allocatable["cpu"].0.as_str(),
                allocatable["pods"].0.as_str()
            ),
            ("8", DEFAULT_MAX_PODS)
        );
        let dumped = "{capacity: {cpu: 8}, allocatable: {cpu: 7, pods: 20}, conditions: [{type: Ready, status: Unknown}]}";
        let dumped = node_with_defaults(dumped);
        assert!(!dumped.is_ready());
        let allocatable = dumped.status.allocatable;
        assert_eq!(
            (
                allocatable["cpu"].0.as_str(),
                allocatable["pods"].0.as_str()
            ),
            ("7", "20")
        );
    }
}
