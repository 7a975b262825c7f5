//! Objects that belong to a job, as the watches show them: NetworkPolicy, ConfigMap, PodGroup,
//! pods.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use trellis_api::{PodGroup, names};
use trellis_cache::watch::{ChangeUrgency, Sink, Undecodable};
use trellis_gang::external;
use trellis_gang::key::Key;
use trellis_gang::observed::{ExternalPod, SlimConfigMap, SlimNetworkPolicy, SlimPod};

use super::WatchSink;
use crate::SchedulerEvent;

/// How long the operator collects changes of starting pods before it reconciles their job.
const GATHER: Duration = Duration::from_millis(50);

impl Sink<SlimNetworkPolicy> for WatchSink {
    fn apply(&self, key: Key, object: SlimNetworkPolicy) {
        self.context
            .cache
            .network_policies
            .insert_observed(key.clone(), object);
        self.context.touch(key);
    }

    fn undecodable(&self, key: &Key, _: Undecodable) {
        self.context.cache.network_policies.remove(key);
        self.context.touch(key.clone());
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context
            .cache
            .network_policies
            .delete_observed(key, uid);
        self.context.touch(key.clone());
    }

    fn unlisted_objects(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        self.context
            .cache
            .network_policies
            .unlisted_objects(listed, version)
    }

    fn synced(&self) {
        self.mark_listed();
    }
}

impl WatchSink {
    /// Reconciles the job to which a ConfigMap of this name may belong.
    fn touch_job_of(&self, config_map: &Key) {
        if let Some(job) = names::job_for_hosts_config_map(&config_map.name) {
            self.context.touch(Key::new(&config_map.namespace, job));
        }
    }
}

impl Sink<SlimConfigMap> for WatchSink {
    fn apply(&self, key: Key, object: SlimConfigMap) {
        self.context
            .cache
            .config_maps
            .insert_observed(key.clone(), object);
        self.touch_job_of(&key);
    }

    fn undecodable(&self, key: &Key, _: Undecodable) {
        self.context.cache.config_maps.remove(key);
        self.touch_job_of(key);
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.config_maps.delete_observed(key, uid);
        self.touch_job_of(key);
    }

    fn unlisted_objects(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        self.context
            .cache
            .config_maps
            .unlisted_objects(listed, version)
    }

    fn synced(&self) {
        self.mark_listed();
    }
}

impl WatchSink {
    /// Handles a changed PodGroup. It belongs to the job of its name, or to the external pods that
    /// name it, if any exist yet.
    fn group_changed(&self, group: &Key, is_users: bool) {
        self.context.touch(group.clone());
        if is_users || self.context.cache.external_pods.has_group(group) {
            self.context
                .send_event(SchedulerEvent::Recheck(external::pod_group_gang_key(group)));
        }
    }

    fn is_users_group(&self, group: &Key) -> bool {
        let group = self.context.cache.pod_groups.get(group);
        group.is_some_and(|group| external::is_user_created(&group))
    }

    /// Handles a changed external pod: wakes its gang and the pod itself.
    fn external_pod_changed<'a>(
        &self,
        key: &Key,
        states: impl IntoIterator<Item = &'a ExternalPod>,
    ) {
        let mut is_one = false;
        let mut groups = BTreeSet::new();
        for pod in states {
            is_one = true;
            groups.extend(pod.group());
        }
        for group in groups {
            let group = Key::new(&key.namespace, group);
            self.context
                .send_event(SchedulerEvent::Recheck(external::pod_group_gang_key(
                    &group,
                )));
        }
        if is_one {
            self.context
                .send_event(SchedulerEvent::Recheck(external::pod_gang_key(key)));
        }
    }
}

impl Sink<PodGroup> for WatchSink {
    fn apply(&self, key: Key, object: PodGroup) {
        let is_users = external::is_user_created(&object);
        self.context
            .cache
            .pod_groups
            .insert_observed(key.clone(), object);
        self.group_changed(&key, is_users);
    }

    /// The scheduler does nothing for the job until its PodGroup decodes again.
    fn undecodable(&self, key: &Key, _: Undecodable) {
        let is_users = self.is_users_group(key);
        self.context.cache.pod_groups.remove(key);
        self.group_changed(key, is_users);
    }

    fn delete(&self, key: &Key, uid: &str) {
        let is_users = self.is_users_group(key);
        self.context.cache.pod_groups.delete_observed(key, uid);
        self.group_changed(key, is_users);
    }

    fn unlisted_objects(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        self.context
            .cache
            .pod_groups
            .unlisted_objects(listed, version)
    }

    fn synced(&self) {
        self.mark_listed();
    }
}

impl Sink<SlimPod> for WatchSink {
    fn apply(&self, key: Key, object: SlimPod) {
        let orders = &self.context.node_orders;
        orders.apply_pod(&key.namespace, &key.name, &object);
        let Some(changes) = self.context.cache.pods.apply(&key, &object) else {
            return;
        };
        let terms = self.context.cache.repulsions.write().apply(&key, &object);
        for repulsion in terms {
            self.context
                .send_event(SchedulerEvent::Repulsion(repulsion));
        }
        let event = SchedulerEvent::for_pod(key.clone(), &object);
        let mut over = None;
        match event {
            SchedulerEvent::Pod { .. } => self.context.send_event(event),
            // The watch is behind the answer to the binding: the pod holds its node.
            _ if self
                .context
                .cache
                .external_pods
                .has_unobserved_binding(&key, &object) => {}
            _ => over = Some(event),
        }
        // Updates the node's reserve for DaemonSet pods. It shrinks once the pod itself counts, and
        // grows again before the pod stops counting.
        let node = self.context.cache.daemon_pods.write().apply(&key, &object);
        if let Some(node) = node {
            self.context.reserve_changed(node);
        }
        let believes =
            |pod: &ExternalPod, is_new| self.context.cache.trusts_annotations(&key, pod, is_new);
        let external = self
            .context
            .cache
            .external_pods
            .apply(&key, &object, believes);
        // This event follows the update of the cache, because the scheduler reads the pod from
        // there.
        if let Some(over) = over {
            self.context.send_event(over);
        }
        if let Some(states) = external {
            self.external_pod_changed(&key, states.iter().flatten().map(AsRef::as_ref));
        }
        for (job, change) in changes {
            match change {
                ChangeUrgency::Urgent => self.context.touch(job),
                // When a gang of a thousand pods starts, the controller reconciles its job a few
                // times, not a thousand times.
                ChangeUrgency::Progress | ChangeUrgency::New => {
                    if change == ChangeUrgency::New {
                        self.context
                            .send_event(SchedulerEvent::Recheck(job.clone()));
                    }
                    self.context.work_queue.add_after(job, GATHER);
                }
                ChangeUrgency::None => {}
            }
        }
    }

    /// Keeps the pod in the cache unchanged: an existing pod holds its node, and the tombstone of a
    /// deleted pod stays.
    fn undecodable(&self, _: &Key, _: Undecodable) {}

    fn delete(&self, key: &Key, uid: &str) {
        let orders = &self.context.node_orders;
        orders.delete_pod(&key.namespace, &key.name);
        let job = self.context.cache.pods.delete(key, uid);
        let external = self.context.cache.external_pods.delete(key, uid);
        let terms = self.context.cache.repulsions.write().delete(key);
        for repulsion in terms {
            self.context
                .send_event(SchedulerEvent::Repulsion(repulsion));
        }
        let node = self.context.cache.daemon_pods.write().delete(key);
        if let Some(node) = node {
            self.context.reserve_changed(node);
        }
        // A newer pod with this name, created by the scheduler, may hold the node.
        if !self.context.cache.pods.contains(key) {
            self.context
                .send_event(SchedulerEvent::PodGone(key.clone()));
        }
        self.external_pod_changed(key, external.as_deref());
        if let Some(job) = job {
            self.context.touch(job);
        }
    }

    fn unlisted_objects(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        self.context.cache.pods.unlisted_pods(listed, version)
    }

    fn synced(&self) {
        self.mark_listed();
    }
}
