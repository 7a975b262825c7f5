//! Changes of nodes.

use trellis_api::visibility::AddedNodes;
use trellis_scheduler::{Node, NodeName, Taint};

use super::{ChangedCluster, MAX_ADDED_NODES, Problem, count_up};

/// Label with the name of the node.
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
/// Prefix of the taints that Kubernetes puts on a node because of its condition.
const CONDITION_TAINTS: &str = "node.kubernetes.io/";

impl ChangedCluster {
    pub(super) fn add_nodes(&mut self, added: &AddedNodes) -> Result<(), Problem> {
        let model = self.node("like", &added.like)?.clone();
        count_up(&mut self.added_nodes, added.count, MAX_ADDED_NODES, "nodes")?;
        let mut number = 0_u32;
        for _ in 0..added.count {
            let name = loop {
                number = number.saturating_add(1);
                let name = NodeName::new(format!("{}-new-{number}", added.like));
                if !self.nodes.contains_key(&name) {
                    break name;
                }
            };
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

    pub(super) fn remove_node(&mut self, name: &str) -> Result<(), Problem> {
        let name = self.node("name", name)?.name.clone();
        let holders = self.gangs.values_mut();
        for holder in holders.filter(|holder| holder.nodes.contains(&name)) {
            holder.nodes.clear();
            // A surplus pod waits for its job to grow again.
            match holder.gang.surplus {
                true => self.engine.delete_gang(&holder.gang.id),
                false => self.engine.release_gang(&holder.gang.id, None),
            }
        }
        self.engine.delete_node(&name);
        self.nodes.remove(&name);
        Ok(())
    }

    pub(super) fn cordon_node(&mut self, name: &str) -> Result<(), Problem> {
        let mut node = self.node("name", name)?.clone();
        node.unschedulable = true;
        self.apply_node(node);
        Ok(())
    }

    pub(super) fn restore_node(&mut self, name: &str) -> Result<(), Problem> {
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

    fn node(&self, field: &'static str, name: &str) -> Result<&Node, Problem> {
        let node = self.nodes.get(&NodeName::new(name));
        node.ok_or_else(|| {
            let message = format!("no node is named {name:?}: `trellis nodes` lists them");
            (field, message)
        })
    }
}

/// Returns the taints that a node keeps when it is in good condition.
fn lasting_taints(node: &Node) -> Vec<Taint> {
    let taints = node.taints.iter();
    let lasting = taints.filter(|taint| !taint.key.starts_with(CONDITION_TAINTS));
    lasting.cloned().collect()
}
