//! Node orders. `trellis_gang::node_order` builds the objects of an order, and a gang's task creates
//! and deletes them. [`NodeOrders`] holds these objects as last observed, and
//! [`maintain_node_orders`] repairs and deletes them.

mod maintenance;
mod placeholders;
mod requests;

use std::collections::BTreeSet;

use parking_lot::RwLock;
use trellis_api::pod_group::JournaledOrder;
use trellis_gang::key::Key;
use trellis_gang::observed::SlimPod;

use crate::context::Context;

pub use maintenance::maintain_node_orders;
pub(crate) use placeholders::{ObservedPlaceholders, has_ended};
pub(crate) use requests::{ObservedRequests, list_requests};

/// The objects that ask autoscalers for nodes.
#[derive(Debug)]
pub struct NodeOrders {
    /// Namespace of placeholder pods. None: no nodes are ordered.
    namespace: Option<String>,
    pub(crate) placeholders: ObservedPlaceholders,
    pub(crate) requests: ObservedRequests,
    /// Orders with missing or failed objects.
    incomplete: RwLock<BTreeSet<String>>,
}

impl NodeOrders {
    pub(crate) fn new(namespace: Option<String>) -> Self {
        Self {
            namespace,
            placeholders: ObservedPlaceholders::default(),
            requests: ObservedRequests::default(),
            incomplete: RwLock::default(),
        }
    }

    /// Returns the namespace of placeholder pods. None: no nodes are ordered.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Records a pod of the cluster, if it is a placeholder.
    pub(crate) fn apply_pod(&self, namespace: &str, name: &str, pod: &SlimPod) {
        if self.namespace() == Some(namespace) {
            self.placeholders.apply(name, pod);
        }
    }

    /// Removes a pod that is gone.
    pub(crate) fn delete_pod(&self, namespace: &str, name: &str) {
        if self.namespace() == Some(namespace) {
            self.placeholders.delete(name);
        }
    }

    /// Marks an order as incomplete: objects of it are missing.
    pub(crate) fn mark_incomplete(&self, order: String) {
        self.incomplete.write().insert(order);
    }

    /// Returns true if the order is marked as incomplete, and removes the mark.
    pub(crate) fn take_incomplete(&self, order: &str) -> bool {
        self.incomplete.write().remove(order)
    }
}

impl Context {
    /// Returns the autoscaler's message about the node order of a job, while the autoscaler has not
    /// asked for the nodes.
    #[must_use]
    pub fn order_delay(&self, job: &Key) -> Option<String> {
        let order = self.journaled_order(job)?;
        self.node_orders.requests.delay(&order.hash)
    }

    /// Returns the node order in the journal of a job.
    pub(crate) fn journaled_order(&self, job: &Key) -> Option<JournaledOrder> {
        let group = self.cache.pod_groups.get(job)?;
        group.status.as_ref()?.provisioning.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pod_with_the_labels_in_another_namespace_is_no_placeholder() {
        let labels =
            json!({"capacity.trellis.dev/order": "order", "capacity.trellis.dev/job-uid": "uid"});
        let pod = json!({"metadata": {"name": "p", "labels": labels}, "spec": {}, "status": {}});
        let pod = serde_json::from_value(pod).unwrap();
        let orders = NodeOrders::new(Some("capacity".to_owned()));
        orders.apply_pod("team-a", "p", &pod);
        assert!(orders.placeholders.orders().is_empty());
        orders.apply_pod("capacity", "p", &pod);
        orders.delete_pod("team-a", "p");
        assert_eq!(orders.placeholders.orders().len(), 1);
    }
}
