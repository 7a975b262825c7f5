//! Nodes, as the watch shows them, and the jobs that are told when a node is lost.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Taint;
use tokio::time::Instant;

use tracing::{info, warn};
use trellis_api::Reason;
use trellis_scheduler::Node;

use super::{Watched, World};
use crate::key::Key;
use crate::scheduling::{Feed, gang, reserve};
use crate::watch::{Health, Leave, Sink, SlimNode, Turned, Undecodable, Zone};

impl World {
    /// The engine's form of a node, as it is now. None: it is gone.
    #[must_use]
    pub fn engine_node(&self, name: &str) -> Option<Node> {
        let node = self.nodes.get(&Key::new("", name))?;
        let mut node = gang::node(&node, &self.unhealthy);
        if reserve::is_own(&node) {
            let sets = self.daemon_sets.all();
            let sets = sets.iter().map(AsRef::as_ref);
            reserve::hold_back(&mut node, sets, |set| self.daemon_pods.is_on(set, name));
        }
        Some(node)
    }

    /// Why what runs on a node is to leave it, though its kubelet says that it is ready. None:
    /// it is well, or not known.
    #[must_use]
    pub fn why_unhealthy(&self, node: &str) -> Option<String> {
        let node = self.nodes.get(&Key::new("", node))?;
        self.unhealthy.why(&node)
    }

    /// Whether what runs on an unhealthy node may leave it now.
    #[must_use]
    pub fn may_leave(&self, node: &str, now: Instant) -> Leave {
        self.disruption.lock().may_leave(node, now)
    }

    /// A gang leaves the node: all others on it may, and those on other nodes of its zone wait.
    pub fn left(&self, node: &str, now: Instant) {
        self.disruption.lock().left(node, now);
    }

    /// True if the node's pods are to be planned anew.
    #[must_use]
    pub fn is_lost(&self, node: &str) -> bool {
        self.health.read().of(node, Instant::now()) >= Health::Lost
    }

    /// True if the node is there and takes new pods: it is ready, not cordoned, and has no taint
    /// by which Kubernetes keeps pods off it, such as for want of memory.
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

    /// True if nobody is left to stop the node's pods: they may be deleted by force.
    #[must_use]
    pub fn is_given_up(&self, node: &str) -> bool {
        self.health.read().of(node, Instant::now()) >= Health::GivenUp
    }

    /// Has the jobs on a node looked at whenever its health changes, by what
    /// the watch shows or by the mere passing of time. Runs until the process ends.
    pub async fn tell_of_lost_nodes(self: Arc<Self>) {
        // Before that, which jobs are on a node is not known.
        self.synced().await;
        loop {
            let next = self.tell_news_of_nodes(Instant::now());
            let passed = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.health_changed.notified() => {}
                () = passed => {}
            }
        }
    }

    /// Gives the time of the next news.
    fn tell_news_of_nodes(&self, now: Instant) -> Option<Instant> {
        let (jobs, next) = {
            let mut health = self.health.write();
            let news = health.news(now);
            let is_news =
                |node: &str| news.nodes.contains(node) || (news.strangers && !health.knows(node));
            let quiet = news.nodes.is_empty() && !news.strangers;
            let jobs = if quiet {
                Vec::new()
            } else {
                self.pods.jobs_on(is_news)
            };
            (jobs, health.next_news(now))
        };
        for job in jobs {
            self.touch(job);
        }
        next
    }
}

impl Watched {
    /// What whoever runs the cluster is to know: that gangs stay where they should not. Once
    /// they may leave they are looked at. Of nodes that are being listed nobody knows how many
    /// there are.
    fn zones_have_turned(&self, turned: Vec<Turned>) {
        for turned in turned.into_iter().filter(|_| self.world.is_synced()) {
            let Turned {
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
            let ill = self.world.disruption.lock().unhealthy_of(&zone);
            for job in self.world.pods.jobs_on(|node| ill.contains(node)) {
                self.world.touch(job);
            }
        }
    }

    /// Pods on the node keep others out of other domains than before.
    fn domains_changed(&self, node: &str) {
        for repulsion in self.world.repulsions.on(node) {
            self.world.tell(Feed::Repulsion(repulsion));
        }
    }
}

impl Sink<SlimNode> for Watched {
    fn apply(&self, key: Key, object: SlimNode) {
        let changed = {
            let mut health = self.world.health.write();
            health.apply(&key.name, object.is_ready(), Instant::now())
        };
        let before = self.world.nodes.get(&key);
        let why = |node: &SlimNode| self.world.unhealthy.why(node);
        let was = before.as_ref().and_then(|before| why(before));
        let is_unhealthy = why(&object).is_some();
        let falls_ill = was.is_none() && is_unhealthy;
        let zone = Zone::of(&object);
        // Before its jobs are looked at they know how it stands with the zone.
        let turned = {
            let mut disruption = self.world.disruption.lock();
            disruption.apply(&key.name, zone, is_unhealthy)
        };
        let same = before.is_some_and(|b| b.metadata.labels == object.metadata.labels);
        self.world.nodes.observed(key.clone(), object);
        self.zones_have_turned(turned);
        self.world.tell(Feed::Node(key.name.clone()));
        if !same {
            self.domains_changed(&key.name);
        }
        if changed {
            self.world.health_changed.notify_one();
        }
        if falls_ill {
            for job in self.world.pods.jobs_on(|node| *node == *key.name) {
                self.world.touch(job);
            }
        }
    }

    /// It offers nothing; but nobody says that it is down, so its pods live on.
    fn undecodable(&self, key: &Key, _: Undecodable) {
        let mut health = self.world.health.write();
        if !health.knows(&key.name) {
            health.apply(&key.name, true, Instant::now());
        }
        drop(health);
        self.world.nodes.remove(key);
        let turned = self.world.disruption.lock().delete(&key.name);
        self.zones_have_turned(turned);
        self.world.tell(Feed::Node(key.name.clone()));
        self.domains_changed(&key.name);
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.world.health.write().delete(&key.name, Instant::now());
        self.world.nodes.deleted(key, uid);
        let turned = self.world.disruption.lock().delete(&key.name);
        self.zones_have_turned(turned);
        self.world.tell(Feed::Node(key.name.clone()));
        self.domains_changed(&key.name);
        self.world.health_changed.notify_one();
    }

    fn synced(&self) {
        self.listed();
    }
}
