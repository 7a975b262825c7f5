//! Orders of new nodes. `trellis_gang::node_order` builds the objects that ask autoscalers for
//! them, and a gang's task creates and withdraws them. [`NodeOrders`] has what autoscalers and the
//! watch tell of them, and [`maintain_node_orders`] keeps them in order.

mod maintenance;
mod placeholders;
mod requests;

use std::collections::BTreeSet;

use parking_lot::RwLock;
use trellis_gang::observed::SlimPod;

pub use maintenance::maintain_node_orders;
pub(crate) use placeholders::{Placeholders, has_ended};
pub(crate) use requests::{Requests, list_requests};

/// The objects that ask autoscalers for nodes.
#[derive(Debug)]
pub struct NodeOrders {
    /// Namespace of placeholder pods. None: no nodes are ordered.
    namespace: Option<String>,
    pub(crate) placeholders: Placeholders,
    pub(crate) requests: Requests,
    /// Orders whose objects are gone or have failed.
    lost: RwLock<BTreeSet<String>>,
}

impl NodeOrders {
    pub(crate) fn new(namespace: Option<String>) -> Self {
        Self {
            namespace,
            placeholders: Placeholders::default(),
            requests: Requests::default(),
            lost: RwLock::default(),
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

    /// Records that objects of an order are missing.
    pub(crate) fn add_lost(&self, order: String) {
        self.lost.write().insert(order);
    }

    /// Returns true if the objects of an order must be created again. The next call returns false.
    pub(crate) fn take_lost(&self, order: &str) -> bool {
        self.lost.write().remove(order)
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
