//! Changes of nodes.

use std::collections::BTreeMap;

use trellis_api::rules;
use trellis_api::visibility::AddedNodes;
use trellis_gang::engine;
use trellis_scheduler::{GangId, Node, NodeName, Taint};

use super::{ChangedCluster, MAX_ADDED_NODES, count_up};
use crate::InvalidChange;

/// Label with the name of the node.
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
/// Most labels of new nodes that differ from those of the existing node.
const MAX_LABELS: usize = 16;
/// Prefix of the taints that Kubernetes puts on a node because of its condition.
const CONDITION_TAINTS: &str = "node.kubernetes.io/";

impl ChangedCluster {
    pub(super) fn add_nodes(&mut self, added: &AddedNodes) -> Result<(), InvalidChange> {
        let model = self.node("like", &added.like)?.clone();
        check_labels(&added.labels)?;
        count_up(&mut self.added_nodes, added.count, MAX_ADDED_NODES, "nodes")?;
        let first = self
            .added_nodes
            .saturating_sub(added.count)
            .saturating_add(1);
        for number in first..=self.added_nodes {
            // No other node has this name: a number counts all nodes that the changes add.
            let name = NodeName::new(format!("{}-added-{number}", added.like));
            let mut labels = model.labels.clone();
            if let Some(hostname) = labels.get_mut(HOSTNAME_LABEL) {
                *hostname = name.to_string();
            }
            labels.extend(added.labels.clone());
            let node = Node {
                labels,
                taints: lasting_taints(&model),
                ..Node::new(name, model.allocatable.clone())
            };
            self.apply_node(node);
        }
        Ok(())
    }

    pub(super) fn remove_node(&mut self, name: &str) -> Result<(), InvalidChange> {
        let name = self.node("name", name)?.name.clone();
        let holders = self
            .gangs
            .values()
            .filter(|known| known.nodes.contains(&name));
        let holders: Vec<GangId> = holders.map(|known| known.gang.id.clone()).collect();
        for id in holders {
            let Some(known) = self.gangs.get_mut(&id) else {
                continue;
            };
            // A surplus pod leaves alone. It waits for its job to grow again.
            if known.gang.surplus {
                self.engine.delete_gang(&id);
                self.gangs.remove(&id);
                continue;
            }
            known.nodes.clear();
            known.since = None;
            self.engine.release_gang(&id, None);
            self.delete_surplus(&engine::job_key(&id));
        }
        self.engine.delete_node(&name);
        self.nodes.remove(&name);
        Ok(())
    }

    pub(super) fn cordon_node(&mut self, name: &str) -> Result<(), InvalidChange> {
        let mut node = self.node("name", name)?.clone();
        node.unschedulable = true;
        self.apply_node(node);
        Ok(())
    }

    pub(super) fn restore_node(&mut self, name: &str) -> Result<(), InvalidChange> {
        let node = self.node("name", name)?.clone();
        let node = Node {
            ready: true,
            unschedulable: false,
            unhealthy: None,
            taints: lasting_taints(&node),
            ..node
        };
        self.apply_node(node);
        Ok(())
    }

    fn apply_node(&mut self, node: Node) {
        self.engine.apply_node(node.clone());
        self.nodes.insert(node.name.clone(), node);
    }

    fn node(&self, field: &str, name: &str) -> Result<&Node, InvalidChange> {
        let node = self.nodes.get(&NodeName::new(name));
        node.ok_or_else(|| {
            let message = format!("no node is named {name:?}: `trellis nodes` lists them");
            InvalidChange::new(field, message)
        })
    }
}

/// Returns the taints that a node keeps when it is in good condition.
fn lasting_taints(node: &Node) -> Vec<Taint> {
    let taints = node.taints.iter();
    let lasting = taints.filter(|taint| !taint.key.starts_with(CONDITION_TAINTS));
    lasting.cloned().collect()
}

/// Checks the labels of new nodes: each of thousands of nodes gets a copy.
fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), InvalidChange> {
    if labels.len() > MAX_LABELS {
        let message = format!(
            "{} labels are too many: give those that differ, at most {MAX_LABELS}",
            labels.len()
        );
        return Err(InvalidChange::new("labels", message));
    }
    let valid = rules::label_keys(labels, &()).and_then(|()| rules::label_values(labels, &()));
    valid.map_err(|error| InvalidChange::new("labels", error.to_string()))
}
