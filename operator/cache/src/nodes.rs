//! One node, as the watch shows it.

use k8s_openapi::api::core::v1::Taint;
use tokio::time::Instant;
use trellis_gang::engine;
use trellis_gang::key::Key;
use trellis_gang::observed::EvictionDecision;
use trellis_gang::requirements::daemon_set_reserve;
use trellis_scheduler::Node;

use super::Cache;
use crate::watch::Health;

impl Cache {
    /// Returns the node in the engine's form. None if the node is gone.
    #[must_use]
    pub fn engine_node(&self, name: &str) -> Option<Node> {
        let node = self.nodes.get(&Key::new("", name))?;
        let mut node = engine::to_engine_node(&node, &self.unhealthy_rules);
        if daemon_set_reserve::is_own(&node) {
            let sets = self.daemon_sets.all();
            let sets = sets.iter().map(AsRef::as_ref);
            daemon_set_reserve::reserve_for_daemon_sets(&mut node, sets, |set| {
                self.daemon_pods.read().has_pod_on(set, name)
            });
        }
        Some(node)
    }

    /// Returns why pods must leave a node whose kubelet reports it ready. None if the node is
    /// healthy or unknown.
    #[must_use]
    pub fn unhealthy_reason(&self, node: &str) -> Option<String> {
        let node = self.nodes.get(&Key::new("", node))?;
        self.unhealthy_rules.unhealthy_reason(&node)
    }

    /// Tells whether the pods of an unhealthy node may be evicted now.
    #[must_use]
    pub fn eviction_decision(&self, node: &str, now: Instant) -> EvictionDecision {
        self.disruption.lock().eviction_decision(node, now)
    }

    /// Records that a gang is evicted from the node: all other gangs on the node may follow, and
    /// the gangs on other nodes of the zone wait.
    pub fn record_eviction(&self, node: &str, now: Instant) {
        self.disruption.lock().record_eviction(node, now);
    }

    /// Returns true if the node is lost: the gangs of its pods are placed elsewhere.
    #[must_use]
    pub fn is_lost(&self, node: &str) -> bool {
        self.health.read().health_of(node, Instant::now()) >= Health::Lost
    }

    /// Returns true if the node exists and takes new pods: it is ready, not cordoned, and has none
    /// of the taints that Kubernetes sets, such as the one for memory pressure.
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

    /// Returns true if no kubelet is left to stop the node's pods: they may be deleted by force.
    #[must_use]
    pub fn is_abandoned(&self, node: &str) -> bool {
        self.health.read().health_of(node, Instant::now()) >= Health::Abandoned
    }
}
