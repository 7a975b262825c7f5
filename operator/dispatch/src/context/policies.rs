//! Policies, as the watches show them.

use std::collections::{BTreeMap, HashSet};

use kube::Resource;
use trellis_api::{ClusterJobPolicy, JobPolicy, QuotaLedger, QuotaPolicy};
use trellis_cache::policy::object_key;
use trellis_cache::watch::{Sink, Store, Undecodable};
use trellis_gang::key::Key;
use trellis_gang::quota::read_ledger;
use trellis_policies::cedar::Policies;

use super::{Context, WatchSink};

impl Context {
    /// Reconciles the jobs whose policies have changed.
    pub fn policies_changed(&self, before: Option<&Policies>, after: &Policies) {
        // There are many jobs, but few namespaces.
        let mut concerned: BTreeMap<String, bool> = BTreeMap::new();
        let changed = |namespace: &str| {
            let before = before.map(|before| before.version(namespace));
            before.as_deref() != Some(after.version(namespace).as_str())
        };
        if !self.cache.is_synced() {
            return;
        }
        self.requeue_external_pods_in(|namespace| {
            let concerned = concerned.entry(namespace.to_owned());
            *concerned.or_insert_with_key(|namespace| changed(namespace))
        });
        for job in self.cache.jobs.all() {
            let key = Key::from_meta(job.meta());
            let concerned = concerned
                .entry(key.namespace.to_string())
                .or_insert_with_key(|namespace| changed(namespace));
            if *concerned {
                self.work_queue.add(key);
            }
        }
    }
}

impl WatchSink {
    /// Applies a policy. A change of its status is no change of the policy, because the operator
    /// writes the status itself.
    fn apply_policy<K: Resource<DynamicType = ()>>(&self, store: &Store<K>, key: Key, object: K) {
        let read = |object: &K| (object.meta().uid.clone(), object.meta().generation);
        let before = store.get(&key);
        let mut changed = before.is_none_or(|before| read(&before) != read(&object));
        // The policy must always be in one of the two stores, because otherwise its `forbid` has no
        // effect.
        let mut unreadable = self.context.cache.policies.undecodable.write();
        store.insert_observed(key.clone(), object);
        changed |= unreadable.remove(&object_key(&key)).is_some();
        // Count the change before readers get the lock: placements wait only for counted changes.
        if changed {
            self.context.cache.policies.record_change(&key);
        }
    }

    fn apply_undecodable_policy<K: Resource<DynamicType = ()>>(
        &self,
        store: &Store<K>,
        key: &Key,
        object: Undecodable,
    ) {
        let mut unreadable = self.context.cache.policies.undecodable.write();
        unreadable.insert(object_key(key), object);
        store.remove(key);
        self.context.cache.policies.record_change(key);
    }

    fn delete_policy<K: Resource<DynamicType = ()>>(&self, store: &Store<K>, key: &Key, uid: &str) {
        let mut unreadable = self.context.cache.policies.undecodable.write();
        let object = object_key(key);
        if unreadable.get(&object).is_some_and(|o| o.uid == uid) {
            unreadable.remove(&object);
        }
        store.delete_observed(key, uid);
        self.context.cache.policies.record_change(key);
    }
}

impl Sink<ClusterJobPolicy> for WatchSink {
    /// Policies count as loaded only once they are compiled.
    const COUNTS_AS_LISTED: bool = false;

    fn apply(&self, key: Key, object: ClusterJobPolicy) {
        self.apply_policy(&self.context.cache.policies.cluster, key, object);
    }

    fn undecodable(&self, key: &Key, object: Undecodable) {
        self.apply_undecodable_policy(&self.context.cache.policies.cluster, key, object);
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.delete_policy(&self.context.cache.policies.cluster, key, uid);
    }

    fn synced(&self) {
        self.context.cache.policies.mark_listed(true);
    }
}

impl Sink<JobPolicy> for WatchSink {
    /// Policies count as loaded only once they are compiled.
    const COUNTS_AS_LISTED: bool = false;

    fn apply(&self, key: Key, object: JobPolicy) {
        self.apply_policy(&self.context.cache.policies.namespaced, key, object);
    }

    fn undecodable(&self, key: &Key, object: Undecodable) {
        self.apply_undecodable_policy(&self.context.cache.policies.namespaced, key, object);
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.delete_policy(&self.context.cache.policies.namespaced, key, uid);
    }

    fn synced(&self) {
        self.context.cache.policies.mark_listed(false);
    }
}

impl WatchSink {
    fn quotas_changed(&self) {
        self.context.cache.quotas.invalidate();
        self.context.requeue_jobs(|_| true);
    }
}

impl Sink<QuotaPolicy> for WatchSink {
    fn apply(&self, key: Key, object: QuotaPolicy) {
        // The operator writes the status itself, so this does not compare it.
        let read = |o: &QuotaPolicy| (o.metadata.uid.clone(), o.metadata.generation);
        let quotas = &self.context.cache.quotas;
        let before = quotas.objects.get(&key);
        let mut changed = before.is_none_or(|before| read(&before) != read(&object));
        let mut unreadable = quotas.undecodable_policies.write();
        quotas.objects.insert_observed(key.clone(), object);
        changed |= unreadable.remove(&*key.name).is_some();
        drop(unreadable);
        if changed {
            self.quotas_changed();
        }
    }

    fn undecodable(&self, key: &Key, object: Undecodable) {
        let quotas = &self.context.cache.quotas;
        let mut unreadable = quotas.undecodable_policies.write();
        unreadable.insert(key.name.to_string(), object);
        quotas.objects.remove(key);
        drop(unreadable);
        self.quotas_changed();
    }

    fn delete(&self, key: &Key, uid: &str) {
        let quotas = &self.context.cache.quotas;
        let mut unreadable = quotas.undecodable_policies.write();
        if unreadable.get(&*key.name).is_some_and(|o| o.uid == uid) {
            unreadable.remove(&*key.name);
        }
        quotas.objects.delete_observed(key, uid);
        drop(unreadable);
        self.quotas_changed();
    }

    fn unlisted_objects(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        self.context
            .cache
            .quotas
            .objects
            .unlisted_objects(listed, version)
    }

    fn synced(&self) {
        self.mark_listed();
    }
}

impl WatchSink {
    /// Changes a ledger in the cache. The scheduler reads each ledger only once. So this notifies
    /// it when an unreadable ledger is corrected or gone.
    fn change_ledger(&self, key: &Key, change: impl FnOnce(&mut BTreeMap<String, Undecodable>)) {
        let quotas = &self.context.cache.quotas;
        let mut undecodable = quotas.undecodable_ledgers.write();
        let is_unreadable = |undecodable: &BTreeMap<String, Undecodable>| {
            let ledger = quotas.ledgers.get(key);
            let is_spoilt = ledger.is_some_and(|ledger| read_ledger(&ledger).is_err());
            is_spoilt || undecodable.contains_key(&*key.name)
        };
        let before = is_unreadable(&undecodable);
        change(&mut undecodable);
        let is_mended = before && !is_unreadable(&undecodable);
        drop(undecodable);
        if is_mended {
            self.quotas_changed();
        }
    }
}

impl Sink<QuotaLedger> for WatchSink {
    fn apply(&self, key: Key, object: QuotaLedger) {
        self.change_ledger(&key, |undecodable| {
            self.context
                .cache
                .quotas
                .ledgers
                .insert_observed(key.clone(), object);
            undecodable.remove(&*key.name);
        });
    }

    fn undecodable(&self, key: &Key, object: Undecodable) {
        self.change_ledger(key, |undecodable| {
            undecodable.insert(key.name.to_string(), object);
            self.context.cache.quotas.ledgers.remove(key);
        });
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.change_ledger(key, |undecodable| {
            if undecodable.get(&*key.name).is_some_and(|o| o.uid == uid) {
                undecodable.remove(&*key.name);
            }
            self.context.cache.quotas.ledgers.delete_observed(key, uid);
        });
    }

    fn unlisted_objects(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        self.context
            .cache
            .quotas
            .ledgers
            .unlisted_objects(listed, version)
    }

    fn synced(&self) {
        self.mark_listed();
    }
}
