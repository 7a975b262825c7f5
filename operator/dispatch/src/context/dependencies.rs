//! Objects that jobs depend on but do not own, as the watches show them. A change reconciles only
//! the jobs that it concerns.

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
use crate::SchedulerEvent;

fn is_in_namespace(job: &TrainingJob, namespace: &str) -> bool {
    job.metadata.namespace.as_deref() == Some(namespace)
}

impl WatchSink {
    /// Handles a changed Service. It may be a child of a job, and any job of the namespace may name
    /// it.
    fn service_changed(&self, key: &Key) {
        for job in self.jobs_with_service(key) {
            self.context.touch(job);
        }
        self.context.requeue_jobs(|job| {
            is_in_namespace(job, &key.namespace)
                && lookup::network_rule_services(&job.spec).any(|s| s == &*key.name)
        });
    }

    /// Returns the jobs that have a Service of this name. Each name of a job's Service is the name
    /// of the job, or begins with it and a hyphen.
    fn jobs_with_service(&self, service: &Key) -> impl Iterator<Item = Key> {
        let name = &*service.name;
        let ends = name.match_indices('-').map(|(end, _)| end);
        let prefixes = ends.chain([name.len()]).filter_map(|end| name.get(..end));
        let keys = prefixes.map(|job| Key::new(&service.namespace, job));
        keys.filter(move |key| {
            let job = self.context.cache.jobs.get(key);
            job.is_some_and(|job| job.spec.service_names(&key.name).any(|other| other == name))
        })
    }

    fn namespace_changed(&self, key: &Key) {
        self.context
            .requeue_jobs(|job| is_in_namespace(job, &key.name));
        self.context
            .requeue_external_pods_in(|namespace| namespace == &*key.name);
    }

    fn priority_class_changed(&self) {
        self.context.requeue_jobs(|_| true);
        self.context.requeue_external_pods_in(|_| true);
    }

    fn queue_changed(&self, key: &Key) {
        self.context
            .send_event(SchedulerEvent::Queue(key.name.clone()));
        self.context.requeue_jobs(|_| true);
    }
}

impl Sink<SlimService> for WatchSink {
    fn apply(&self, key: Key, object: SlimService) {
        self.context
            .cache
            .services
            .insert_observed(key.clone(), object);
        self.service_changed(&key);
    }

    fn undecodable(&self, key: &Key, _: Undecodable) {
        self.context.cache.services.remove(key);
        self.service_changed(key);
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.services.delete_observed(key, uid);
        self.service_changed(key);
    }

    fn unlisted_objects(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        self.context
            .cache
            .services
            .unlisted_objects(listed, version)
    }

    fn synced(&self) {
        self.mark_listed();
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
        self.context
            .cache
            .namespaces
            .insert_observed(key.clone(), object);
        if changed {
            self.namespace_changed(&key);
        }
        if is_new {
            self.context.charge_external_pods_in(&key.name);
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.namespaces.delete_observed(key, uid);
        self.namespace_changed(key);
    }

    fn synced(&self) {
        self.mark_listed();
    }
}

impl Sink<PriorityClass> for WatchSink {
    fn apply(&self, key: Key, object: PriorityClass) {
        let read = |c: &PriorityClass| (c.value, c.global_default, c.preemption_policy.clone());
        let before = self.context.cache.priority_classes.get(&key);
        let changed = before.is_none_or(|before| read(&before) != read(&object));
        self.context
            .cache
            .priority_classes
            .insert_observed(key, object);
        if changed {
            self.priority_class_changed();
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context
            .cache
            .priority_classes
            .delete_observed(key, uid);
        self.priority_class_changed();
    }

    fn synced(&self) {
        self.mark_listed();
    }
}

impl Sink<TrainingQueue> for WatchSink {
    fn apply(&self, key: Key, object: TrainingQueue) {
        self.context
            .cache
            .undecodable_queues
            .write()
            .remove(&*key.name);
        // The operator writes the status itself, so this does not compare it.
        let before = self.context.cache.queues.get(&key);
        let changed = before.is_none_or(|before| {
            let read = |q: &TrainingQueue| (q.metadata.uid.clone(), q.metadata.generation);
            read(&before) != read(&object)
        });
        let quota = QueueQuota::from(&object.spec);
        self.context
            .cache
            .queues
            .insert_observed(key.clone(), object);
        if changed {
            self.context.cache.quotas.set_queue(&key.name, Some(quota));
            self.queue_changed(&key);
        }
    }

    /// Stops only this queue: no gang starts on a quota that does not decode.
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
        self.context.cache.queues.delete_observed(key, uid);
        // Keep the quota if a newer queue with this name exists.
        if self.context.cache.queues.get(key).is_none() {
            self.context.cache.quotas.set_queue(&key.name, None);
        }
        self.queue_changed(key);
    }

    fn synced(&self) {
        self.mark_listed();
    }
}

impl Sink<ResourceFlavor> for WatchSink {
    fn apply(&self, key: Key, object: ResourceFlavor) {
        self.context
            .cache
            .flavors
            .insert_observed(key.clone(), object);
        self.context.send_event(SchedulerEvent::Flavor(key.name));
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.flavors.delete_observed(key, uid);
        self.context
            .send_event(SchedulerEvent::Flavor(key.name.clone()));
    }

    fn synced(&self) {
        self.mark_listed();
    }
}

impl Sink<Topology> for WatchSink {
    fn apply(&self, key: Key, object: Topology) {
        self.context
            .cache
            .topologies
            .insert_observed(key.clone(), object);
        self.context.send_event(SchedulerEvent::Topology(key.name));
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.topologies.delete_observed(key, uid);
        self.context
            .send_event(SchedulerEvent::Topology(key.name.clone()));
    }

    fn synced(&self) {
        self.mark_listed();
    }
}

impl Sink<ResourceQuota> for WatchSink {
    fn apply(&self, key: Key, object: ResourceQuota) {
        self.context
            .cache
            .resource_quotas
            .insert_observed(key.clone(), object);
        self.context
            .send_event(SchedulerEvent::NamespaceQuota(key.namespace));
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.resource_quotas.delete_observed(key, uid);
        self.context
            .send_event(SchedulerEvent::NamespaceQuota(key.namespace.clone()));
    }

    fn synced(&self) {
        self.mark_listed();
    }
}
