//! Objects that jobs depend on but do not own, as the watches show them. Only the jobs that a
//! change concerns are reconciled.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use trellis_api::{ResourceFlavor, Topology, TrainingJob, TrainingQueue};
use trellis_cache::watch::{Sink, Undecodable};
use trellis_gang::key::Key;
use trellis_gang::lookup;
use trellis_gang::observed::{SlimNamespace, SlimService};
use trellis_policies::quota::QueueQuota;

use super::WatchSink;
use crate::Feed;

fn is_in(job: &TrainingJob, namespace: &str) -> bool {
    job.metadata.namespace.as_deref() == Some(namespace)
}

impl WatchSink {
    /// A Service is a child of the job of its name, and any job of the namespace may name it.
    fn service_changed(&self, key: &Key) {
        if self.context.cache.jobs.get(key).is_some() {
            self.context.touch(key.clone());
        }
        self.context.look_again_at(|job| {
            is_in(job, &key.namespace) && lookup::services(&job.spec).any(|s| s == &*key.name)
        });
    }

    fn namespace_changed(&self, key: &Key) {
        self.context.look_again_at(|job| is_in(job, &key.name));
        self.context
            .look_again_at_external_pods_in(|namespace| namespace == &*key.name);
    }

    fn priority_class_changed(&self) {
        self.context.look_again_at(|_| true);
        self.context.look_again_at_external_pods_in(|_| true);
    }

    fn queue_changed(&self, key: &Key) {
        self.context.tell(Feed::Queue(key.name.clone()));
        self.context.look_again_at(|_| true);
    }
}

impl Sink<SlimService> for WatchSink {
    fn apply(&self, key: Key, object: SlimService) {
        self.context.cache.services.observed(key.clone(), object);
        self.service_changed(&key);
    }

    fn undecodable(&self, key: &Key, _: Undecodable) {
        self.context.cache.services.remove(key);
        self.service_changed(key);
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.services.deleted(key, uid);
        self.service_changed(key);
    }

    fn ghosts(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        self.context.cache.services.ghosts(listed, version)
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<SlimNamespace> for WatchSink {
    fn apply(&self, key: Key, object: SlimNamespace) {
        // No other field of a namespace is read.
        let read = |n: &SlimNamespace| {
            let meta = &n.metadata;
            (meta.labels.clone(), meta.deletion_timestamp.is_some())
        };
        let before = self.context.cache.namespaces.get(&key);
        let is_new = before.is_none();
        let changed = before.is_none_or(|before| read(&before) != read(&object));
        self.context.cache.namespaces.observed(key.clone(), object);
        if changed {
            self.namespace_changed(&key);
        }
        if is_new {
            self.context.charge_external_pods_in(&key.name);
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.namespaces.deleted(key, uid);
        self.namespace_changed(key);
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<PriorityClass> for WatchSink {
    fn apply(&self, key: Key, object: PriorityClass) {
        let read = |c: &PriorityClass| (c.value, c.global_default, c.preemption_policy.clone());
        let before = self.context.cache.priority_classes.get(&key);
        let changed = before.is_none_or(|before| read(&before) != read(&object));
        self.context.cache.priority_classes.observed(key, object);
        if changed {
            self.priority_class_changed();
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.priority_classes.deleted(key, uid);
        self.priority_class_changed();
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<TrainingQueue> for WatchSink {
    fn apply(&self, key: Key, object: TrainingQueue) {
        self.context
            .cache
            .undecodable_queues
            .write()
            .remove(&*key.name);
        // The operator writes the status itself, so it is not compared.
        let before = self.context.cache.queues.get(&key);
        let changed = before.is_none_or(|before| {
            let read = |q: &TrainingQueue| (q.metadata.uid.clone(), q.metadata.generation);
            read(&before) != read(&object)
        });
        let quota = QueueQuota::from(&object.spec);
        self.context.cache.queues.observed(key.clone(), object);
        if changed {
            self.context.cache.quotas.queue_is(&key.name, Some(quota));
            self.queue_changed(&key);
        }
    }

    /// Stops this queue and no other: no gang starts on a quota that cannot be decoded.
    fn undecodable(&self, key: &Key, object: Undecodable) {
        let mut all = self.context.cache.undecodable_queues.write();
        all.insert(key.name.to_string(), object);
        drop(all);
        self.context.cache.queues.remove(key);
        self.queue_changed(key);
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context
            .cache
            .undecodable_queues
            .write()
            .remove(&*key.name);
        self.context.cache.queues.deleted(key, uid);
        // Keep the quota if a newer queue of that name exists.
        if self.context.cache.queues.get(key).is_none() {
            self.context.cache.quotas.queue_is(&key.name, None);
        }
        self.queue_changed(key);
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<ResourceFlavor> for WatchSink {
    fn apply(&self, key: Key, object: ResourceFlavor) {
        self.context.cache.flavors.observed(key.clone(), object);
        self.context.tell(Feed::Flavor(key.name));
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.flavors.deleted(key, uid);
        self.context.tell(Feed::Flavor(key.name.clone()));
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<Topology> for WatchSink {
    fn apply(&self, key: Key, object: Topology) {
        self.context.cache.topologies.observed(key.clone(), object);
        self.context.tell(Feed::Topology(key.name));
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.topologies.deleted(key, uid);
        self.context.tell(Feed::Topology(key.name.clone()));
    }

    fn synced(&self) {
        self.listed();
    }
}

impl Sink<ResourceQuota> for WatchSink {
    fn apply(&self, key: Key, object: ResourceQuota) {
        self.context
            .cache
            .resource_quotas
            .observed(key.clone(), object);
        self.context.tell(Feed::NamespaceQuota(key.namespace));
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.resource_quotas.deleted(key, uid);
        self.context
            .tell(Feed::NamespaceQuota(key.namespace.clone()));
    }

    fn synced(&self) {
        self.listed();
    }
}
