//! DaemonSets, and the nodes on which they have pods. A node keeps resources free for pods of
//! DaemonSets.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::core::v1 as core;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::Deserialize;

use super::slim::{SlimPod, SlimPodSpec, bare};
use crate::key::Key;

/// A DaemonSet, reduced to the requirements of its pods.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "apps::DaemonSet")]
pub struct SlimDaemonSet {
    /// Metadata, without labels and annotations.
    #[serde(deserialize_with = "bare")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: SlimDaemonSetSpec,
}

/// The fields of a DaemonSet's spec that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct SlimDaemonSetSpec {
    /// Template of the pods.
    pub template: SlimDaemonTemplate,
}

/// The fields of a DaemonSet's template that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct SlimDaemonTemplate {
    /// Spec of the pods.
    pub spec: SlimDaemonPodSpec,
}

/// The fields of the pods' spec that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimDaemonPodSpec {
    /// Containers and resources; `nodeName` for a DaemonSet of one node.
    #[serde(flatten)]
    pub pod: SlimPodSpec,
    /// Labels that the node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Node affinity of the pods.
    #[serde(rename = "affinity")]
    pub node: SlimNodeAffinity,
    /// Tolerations of the pods.
    pub tolerations: Vec<core::Toleration>,
    /// True if the pods use the node's network.
    pub host_network: bool,
}

/// The node affinity in a pod's affinity.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimNodeAffinity {
    /// Required and preferred terms.
    pub node_affinity: Option<core::NodeAffinity>,
}

impl SlimDaemonSet {
    /// Returns true if both have the same effect on nodes.
    #[must_use]
    pub fn is_equal_for_nodes(&self, other: &Self) -> bool {
        let read = |d: &Self| {
            let meta = &d.metadata;
            let is_deleting = meta.deletion_timestamp.is_some();
            (meta.uid.clone(), meta.generation, is_deleting)
        };
        read(self) == read(other)
    }
}

/// The nodes on which each DaemonSet has pods, by the uid of the DaemonSet.
#[derive(Debug, Default)]
pub struct DaemonPodIndex {
    /// DaemonSet and node of each pod.
    pods: HashMap<Key, (Arc<str>, Arc<str>)>,
    /// Pods, by node and DaemonSet.
    nodes: HashMap<Arc<str>, HashMap<Arc<str>, HashSet<Key>>>,
}

impl DaemonPodIndex {
    /// Stores a pod as the watch shows it. Returns the node on which the DaemonSet now has its
    /// first pod, or has no pod any more.
    pub fn apply(&mut self, key: &Key, pod: &SlimPod) -> Option<Arc<str>> {
        let now = daemon_set_and_node(pod);
        let before = self.pods.get(key);
        if before == now.as_ref() {
            return None;
        }
        let old_node = self.delete(key);
        now.and_then(|now| self.insert(key, now)).or(old_node)
    }

    /// Returns true if the DaemonSet of that uid has a pod on the node.
    #[must_use]
    pub fn has_pod_on(&self, daemon_set: &str, node: &str) -> bool {
        let there = self.nodes.get(node);
        there.is_some_and(|sets| sets.contains_key(daemon_set))
    }

    fn insert(&mut self, key: &Key, (set, node): (Arc<str>, Arc<str>)) -> Option<Arc<str>> {
        self.pods.insert(key.clone(), (set.clone(), node.clone()));
        let pods = self
            .nodes
            .entry(node.clone())
            .or_default()
            .entry(set)
            .or_default();
        pods.insert(key.clone());
        (pods.len() == 1).then_some(node)
    }

    /// Removes a pod. Returns the node on which the DaemonSet has no pod any more.
    pub fn delete(&mut self, key: &Key) -> Option<Arc<str>> {
        let (set, node) = self.pods.remove(key)?;
        let sets = self.nodes.get_mut(&node)?;
        let pods = sets.get_mut(&set)?;
        pods.remove(key);
        if !pods.is_empty() {
            return None;
        }
        sets.remove(&set);
        if sets.is_empty() {
            self.nodes.remove(&node);
        }
        Some(node)
    }
}

/// Returns the DaemonSet and the node of a pod. Returns None if the pod has no node yet, has ended,
/// or belongs to no DaemonSet.
fn daemon_set_and_node(pod: &SlimPod) -> Option<(Arc<str>, Arc<str>)> {
    if matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let set = owners.find(|o| o.controller == Some(true) && o.kind == "DaemonSet")?;
    let node = pod.spec.node_name.as_deref()?;
    Some((set.uid.as_str().into(), node.into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(set: &str, node: Option<&str>, phase: &str) -> SlimPod {
        serde_json::from_value(json!({
            "metadata": {"ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "DaemonSet", "name": set, "uid": set, "controller": true,
            }]},
            "spec": {"nodeName": node},
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    #[test]
    fn only_first_and_last_daemon_pod_of_a_node_are_reported() {
        let mut index = DaemonPodIndex::default();
        let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
        let on = |node| pod("set", Some(node), "Running");
        assert_eq!(index.apply(&a, &pod("set", None, "Pending")), None);
        assert!(!index.has_pod_on("set", "n"));
        assert_eq!(index.apply(&a, &on("n")).as_deref(), Some("n"));
        assert!(index.has_pod_on("set", "n") && !index.has_pod_on("other", "n"));
        assert_eq!(index.apply(&a, &on("n")), None, "nothing new");
        assert_eq!(index.apply(&b, &on("n")), None, "a second one");
        assert_eq!(index.delete(&a), None);
        assert!(index.has_pod_on("set", "n"));
        // The pod has ended: the DaemonSet will create another.
        let ended = pod("set", Some("n"), "Failed");
        assert_eq!(index.apply(&b, &ended).as_deref(), Some("n"));
        assert!(!index.has_pod_on("set", "n"));
        assert_eq!(index.delete(&b), None);
    }

    #[test]
    fn pods_without_a_daemon_set_are_ignored() {
        let mut index = DaemonPodIndex::default();
        let mut pod = pod("set", Some("n"), "Running");
        pod.metadata.owner_references = None;
        assert_eq!(index.apply(&Key::new("ns", "a"), &pod), None);
        assert!(!index.has_pod_on("set", "n"));
    }
}
