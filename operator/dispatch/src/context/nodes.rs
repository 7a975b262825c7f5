//! Nodes, as the watch shows them, and the jobs to reconcile when a node is lost.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::{info, warn};
use trellis_api::Reason;
use trellis_cache::watch::{Sink, Undecodable};
use trellis_gang::key::Key;
use trellis_gang::observed::{EvictionZone, SlimNode, ZoneChange};

use super::{Context, WatchSink};
use crate::SchedulerEvent;

impl Context {
    /// Makes the controller reconcile the jobs on a node whenever the node's health changes, by a
    /// watch event or a timeout. Runs until the process ends.
    pub async fn follow_node_health(self: Arc<Self>) {
        // Before that, the cache does not know which jobs are on a node.
        self.cache.wait_synced().await;
        loop {
            let next = self.requeue_jobs_of_changed_nodes(Instant::now());
            let passed = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.cache.health_changed.notified() => {}
                () = passed => {}
            }
        }
    }

    /// Requeues the jobs on nodes whose health has changed. Returns the time of the next change.
    fn requeue_jobs_of_changed_nodes(&self, now: Instant) -> Option<Instant> {
        let (jobs, next) = {
            let mut health = self.cache.health.write();
            let news = health.take_changes(now);
            let is_news = |node: &str| {
                news.nodes.contains(node)
                    || (news.unknown_nodes_abandoned && !health.contains(node))
            };
            let quiet = news.nodes.is_empty() && !news.unknown_nodes_abandoned;
            let jobs = if quiet {
                Vec::new()
            } else {
                self.cache.pods.jobs_on_nodes(is_news)
            };
            (jobs, health.next_change(now))
        };
        for job in jobs {
            self.touch(job);
        }
        next
    }
}

impl WatchSink {
    /// Logs for administrators that gangs have to stay on unhealthy nodes, and reconciles their
    /// jobs once they may leave. Does nothing during the first list, because the number of nodes is
    /// not known yet.
    fn zones_changed(&self, turned: Vec<ZoneChange>) {
        for turned in turned
            .into_iter()
            .filter(|_| self.context.cache.is_synced())
        {
            let ZoneChange {
                zone,
                disrupted,
                unhealthy,
                nodes,
            } = turned;
            if disrupted {
                warn!(
                    %zone, unhealthy, nodes, reason = %Reason::PartialDisruption,
                    "so many nodes are unhealthy at once that no gang leaves them: look at what declares them unhealthy"
                );
                continue;
            }
            info!(%zone, unhealthy, nodes, "gangs leave unhealthy nodes again");
            let unhealthy_nodes = self.context.cache.disruption.lock().unhealthy_nodes(&zone);
            for job in self
                .context
                .cache
                .pods
                .jobs_on_nodes(|node| unhealthy_nodes.contains(node))
            {
                self.context.touch(job);
            }
        }
    }

    /// Handles a change of the topology domains from which pods on the node exclude other pods.
    fn domains_changed(&self, node: &str) {
        let terms = self.context.cache.repulsions.read().terms_on_node(node);
        for repulsion in terms {
            self.context
                .send_event(SchedulerEvent::Repulsion(repulsion));
        }
    }
}

impl Sink<SlimNode> for WatchSink {
    fn apply(&self, key: Key, object: SlimNode) {
        let changed = {
            let mut health = self.context.cache.health.write();
            health.apply(&key.name, object.is_ready(), Instant::now())
        };
        let before = self.context.cache.nodes.get(&key);
        let why = |node: &SlimNode| self.context.cache.unhealthy_rules.unhealthy_reason(node);
        let reason_before = before.as_ref().and_then(|before| why(before));
        let is_unhealthy = why(&object).is_some();
        let becomes_unhealthy = reason_before.is_none() && is_unhealthy;
        let zone = EvictionZone::from_node(&object);
        // The disruption state of the zone must be current before jobs are reconciled.
        let turned = {
            let mut disruption = self.context.cache.disruption.lock();
            disruption.apply(&key.name, zone, is_unhealthy)
        };
        let same = before.is_some_and(|b| b.metadata.labels == object.metadata.labels);
        self.context
            .cache
            .nodes
            .insert_observed(key.clone(), object);
        self.zones_changed(turned);
        self.context
            .send_event(SchedulerEvent::Node(key.name.clone()));
        if !same {
            self.domains_changed(&key.name);
        }
        if changed {
            self.context.cache.health_changed.notify_one();
        }
        if becomes_unhealthy {
            for job in self
                .context
                .cache
                .pods
                .jobs_on_nodes(|node| *node == *key.name)
            {
                self.context.touch(job);
            }
        }
    }

    /// The node offers no resources. But there is no sign that it is down, so its pods continue.
    fn undecodable(&self, key: &Key, _: Undecodable) {
        let mut health = self.context.cache.health.write();
        if !health.contains(&key.name) {
            health.apply(&key.name, true, Instant::now());
        }
        drop(health);
        self.context.cache.nodes.remove(key);
        let turned = self.context.cache.disruption.lock().delete(&key.name);
        self.zones_changed(turned);
        self.context
            .send_event(SchedulerEvent::Node(key.name.clone()));
        self.domains_changed(&key.name);
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context
            .cache
            .health
            .write()
            .delete(&key.name, Instant::now());
        self.context.cache.nodes.delete_observed(key, uid);
        let turned = self.context.cache.disruption.lock().delete(&key.name);
        self.zones_changed(turned);
        self.context
            .send_event(SchedulerEvent::Node(key.name.clone()));
        self.domains_changed(&key.name);
        self.context.cache.health_changed.notify_one();
    }

    fn synced(&self) {
        self.mark_listed();
    }
}
