//! One node, as the watch shows it.

use k8s_openapi::api::core::v1::Taint;
use tokio::time::Instant;
use trellis_gang::key::Key;
use trellis_gang::observed::Leave;
use trellis_gang::{engine, reserve};
use trellis_scheduler::Node;

use super::Cache;
use crate::watch::Health;

impl Cache {
    /// The node in the engine's form. None if the node is gone.
    #[must_use]
    pub fn engine_node(&self, name: &str) -> Option<Node> {
        let node = self.nodes.get(&Key::new("", name))?;
        let mut node = engine::node(&node, &self.unhealthy);
        if reserve::is_own(&node) {
            let sets = self.daemon_sets.all();
            let sets = sets.iter().map(AsRef::as_ref);
            reserve::hold_back(&mut node, sets, |set| self.daemon_pods.is_on(set, name));
        }
        Some(node)
    }

    /// Why pods must leave a node whose kubelet reports it ready. None if the node is healthy or
    /// unknown.
    #[must_use]
    pub fn why_unhealthy(&self, node: &str) -> Option<String> {
        let node = self.nodes.get(&Key::new("", node))?;
        self.unhealthy.why(&node)
    }

    /// Tells whether the pods of an unhealthy node may be evicted now.
    #[must_use]
    pub fn may_leave(&self, node: &str, now: Instant) -> Leave {
        self.disruption.lock().may_leave(node, now)
    }

    /// Records that a gang is evicted from the node: all other gangs on the node may follow, and
    /// the gangs on other nodes of the zone wait.
    pub fn left(&self, node: &str, now: Instant) {
        self.disruption.lock().left(node, now);
    }

    /// True if the node is lost: the gangs of its pods are placed elsewhere.
    #[must_use]
    pub fn is_lost(&self, node: &str) -> bool {
        self.health.read().of(node, Instant::now()) >= Health::Lost
    }

    /// True if the node exists and takes new pods: it is ready, not cordoned, and has none of the
    /// taints that Kubernetes sets, such as the one for memory pressure.
    #[must_use]
    pub fn is_open(&self, node: &str) -> bool {
        let keeps_off = |taint: &Taint| {
            taint.key.starts_with("node.kubernetes.io/") && taint.effect != "PreferNoSchedule"
        };
        let node = self.nodes.get(&Key::new("", node));
        node.is_some_and(|node| {
            node.is_ready() && !node.spec.unschedulable && !node.spec.taints.iter().any(keeps_off)
        })
    }

    /// True if no kubelet is left to stop the node's pods: they may be deleted by force.
    #[must_use]
    pub fn is_given_up(&self, node: &str) -> bool {
        self.health.read().of(node, Instant::now()) >= Health::GivenUp
    }
}
