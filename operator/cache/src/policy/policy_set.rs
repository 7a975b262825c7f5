//! The policy objects as the watches show them, and the policies that are in force.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::time::Instant;
use trellis_api::{ClusterJobPolicy, JobPolicy};
use trellis_gang::key::Key;
use trellis_policies::AuthorizedJob;
use trellis_policies::cedar::{ObjectKey, Policies, PolicyObject};

use super::JobViolations;
use super::pending_changes::{PendingChanges, PolicyScope};
use crate::watch::{Store, Undecodable};

/// The policies of the cluster.
#[derive(Debug, Default)]
pub struct PolicySet {
    /// ClusterJobPolicies.
    pub cluster: Store<ClusterJobPolicy>,
    /// JobPolicies.
    pub namespaced: Store<JobPolicy>,
    /// Objects of either kind that do not decode.
    pub undecodable: RwLock<BTreeMap<ObjectKey, Undecodable>>,
    /// Existing jobs that the policies would deny.
    pub violations: JobViolations,
    cluster_listed: AtomicBool,
    namespaced_listed: AtomicBool,
    pending: Mutex<PendingChanges>,
    cluster_changed: Notify,
    namespace_changed: Notify,
    active: RwLock<Option<Arc<Policies>>>,
    replaced: Notify,
}

/// Returns the object that the key of a watch event names.
pub fn object_key(key: &Key) -> ObjectKey {
    let namespace = (!key.namespace.is_empty()).then(|| key.namespace.to_string());
    ObjectKey {
        namespace,
        name: key.name.to_string(),
    }
}

impl PolicySet {
    /// Returns the policies in force. None until they have been read. Until then nothing is
    /// allowed.
    #[must_use]
    pub fn active(&self) -> Option<Arc<Policies>> {
        self.active.read().clone()
    }

    /// Returns true if the policies that allowed the job are still in force.
    #[must_use]
    pub fn still_allows(&self, job: &AuthorizedJob) -> bool {
        let namespace = job.compiled().job().namespace();
        let active = self.active.read();
        let version = active.as_ref().map(|policies| policies.version(namespace));
        version.as_deref() == Some(job.version())
    }

    /// Replaces the policies in force.
    pub fn replace(&self, policies: Arc<Policies>) {
        *self.active.write() = Some(policies);
        self.pending.lock().clear();
        self.replaced.notify_waiters();
    }

    /// Puts the result of `change` in force, which includes the first `latest` changes of the
    /// scope. Returns the policies before and after.
    pub fn update(
        &self,
        scope: &PolicyScope,
        latest: u64,
        change: impl FnOnce(Option<&Policies>) -> Policies,
    ) -> (Option<Arc<Policies>>, Arc<Policies>) {
        let mut active = self.active.write();
        let after = Arc::new(change(active.as_deref()));
        let before = active.replace(after.clone());
        drop(active);
        self.pending
            .lock()
            .mark_loaded(scope, latest, Instant::now());
        self.replaced.notify_waiters();
        (before, after)
    }

    /// Returns the changes that are not loaded yet.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn pending(&self) -> parking_lot::MutexGuard<'_, PendingChanges> {
        self.pending.lock()
    }

    /// Returns the number of the latest change of a scope that is not loaded yet.
    pub fn latest_change(&self, scope: &PolicyScope) -> Option<u64> {
        self.pending.lock().latest_change(scope)
    }

    /// Returns the namespaces with changes that are not loaded, longest wait first, each with the
    /// start of its wait.
    pub fn changed_namespaces(&self) -> Vec<(String, Instant)> {
        let pending = self.pending.lock();
        let all = pending.namespaces().into_iter();
        all.map(|(name, since)| (name.to_owned(), since)).collect()
    }

    /// Waits until the cluster's policies and those of the namespace include all changes that are
    /// known at the call. Changes in other namespaces do not matter.
    pub async fn wait_settled(&self, namespace: &str) {
        let scopes = [None, Some(namespace.to_owned())];
        let latest_by_scope = scopes.map(|scope| {
            let latest = self.latest_change(&scope);
            (scope, latest)
        });
        loop {
            let replaced = self.replaced.notified();
            let is_loaded = self.active.read().is_some() && {
                let pending = self.pending.lock();
                let mut latest_by_scope = latest_by_scope.iter();
                latest_by_scope.all(|(scope, latest)| pending.is_loaded(scope, *latest))
            };
            if is_loaded {
                return;
            }
            replaced.await;
        }
    }

    /// Waits until the policies of the cluster are in force. The policies of a namespace may load
    /// later ([`Policies::is_loaded`]). Until then nothing is allowed in it.
    pub async fn wait_loaded(&self) {
        loop {
            let replaced = self.replaced.notified();
            if self.active.read().is_some() {
                return;
            }
            replaced.await;
        }
    }

    /// Records that an object was created, changed or deleted.
    pub fn record_change(&self, key: &Key) {
        let scope = object_key(key).namespace;
        let changed = match scope {
            None => &self.cluster_changed,
            Some(_) => &self.namespace_changed,
        };
        self.pending.lock().record_change(scope, Instant::now());
        changed.notify_one();
    }

    /// Records that the first list of a kind is complete.
    pub fn mark_listed(&self, is_cluster: bool) {
        let listed = match is_cluster {
            true => &self.cluster_listed,
            false => &self.namespaced_listed,
        };
        listed.store(true, Ordering::Release);
        self.cluster_changed.notify_one();
    }

    /// Returns true once both kinds are listed. Before that, a `forbid` policy may be missing.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.cluster_listed.load(Ordering::Acquire)
            && self.namespaced_listed.load(Ordering::Acquire)
    }

    /// Waits for the next change of the cluster's policies.
    pub async fn wait_cluster_change(&self) {
        self.cluster_changed.notified().await;
    }

    /// Waits for the next change of a namespace's policies.
    pub async fn wait_namespace_change(&self) {
        self.namespace_changed.notified().await;
    }

    /// Returns the namespaces that have policy objects.
    pub fn namespaces(&self) -> BTreeSet<String> {
        let unreadable = self.undecodable.read();
        let unreadable_keys = unreadable.keys().filter_map(|key| key.namespace.clone());
        let read = self.namespaced.all().into_iter();
        let read = read.filter_map(|object| object.metadata.namespace.clone());
        unreadable_keys.chain(read).collect()
    }

    /// Returns all objects of the scope, including those that do not decode.
    #[must_use]
    pub fn objects(&self, scope: &PolicyScope) -> Vec<PolicyObject> {
        // This holds the lock while it reads both stores, so that it misses no object that moves
        // between them.
        let unreadable = self.undecodable.read();
        let of_scope = unreadable.iter().filter(|(key, _)| key.namespace == *scope);
        let unreadable_objects = of_scope.map(|(key, object)| {
            PolicyObject::from_decode_error(key.clone(), object.uid.clone(), object.error.clone())
        });
        let read: Vec<PolicyObject> = match scope {
            None => {
                let all = self.cluster.all();
                all.iter().map(|object| (&**object).into()).collect()
            }
            Some(_) => {
                let all = self.namespaced.all().into_iter();
                let own = all.filter(|object| object.metadata.namespace == *scope);
                own.map(|object| (&*object).into()).collect()
            }
        };
        let read = read.into_iter();
        read.filter(|object| !unreadable.contains_key(&object.key))
            .chain(unreadable_objects)
            .collect()
    }
}
