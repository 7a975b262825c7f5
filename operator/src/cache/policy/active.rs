//! The policy objects as the watches show them, and the policies that decide.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::time::Instant;
use trellis_api::{ClusterJobPolicy, JobPolicy};
use trellis_policies::AuthorizedJob;
use trellis_policies::cedar::{ObjectKey, Policies, PolicyObject};

use super::Violations;
use super::pending::{Pending, Scope};
use crate::cache::watch::{Store, Undecodable};
use crate::gang::key::Key;

/// The policies of the cluster.
#[derive(Debug, Default)]
pub struct PolicySet {
    /// ClusterJobPolicies.
    pub cluster: Store<ClusterJobPolicy>,
    /// JobPolicies.
    pub namespaced: Store<JobPolicy>,
    /// Those of either kind that do not decode.
    pub unreadable: RwLock<BTreeMap<ObjectKey, Undecodable>>,
    /// What of jobs they deny that is not refused.
    pub violations: Violations,
    cluster_listed: AtomicBool,
    namespaced_listed: AtomicBool,
    pending: Mutex<Pending>,
    cluster_changed: Notify,
    namespace_changed: Notify,
    active: RwLock<Option<Arc<Policies>>>,
    replaced: Notify,
}

/// Which object a key of a watch names.
pub(crate) fn object_key(key: &Key) -> ObjectKey {
    let namespace = (!key.namespace.is_empty()).then(|| key.namespace.to_string());
    ObjectKey {
        namespace,
        name: key.name.to_string(),
    }
}

impl PolicySet {
    /// The policies that decide. None: they have not been read yet, and nothing is allowed.
    #[must_use]
    pub fn active(&self) -> Option<Arc<Policies>> {
        self.active.read().clone()
    }

    /// True if the policies of now are, for the job, those that allow it.
    #[must_use]
    pub fn still_allow(&self, job: &AuthorizedJob) -> bool {
        let namespace = job.compiled().job().namespace();
        let active = self.active.read();
        let version = active.as_ref().map(|policies| policies.version(namespace));
        version.as_deref() == Some(job.version())
    }

    /// From now on these decide, and there are no others.
    pub fn replace(&self, policies: Arc<Policies>) {
        *self.active.write() = Some(policies);
        self.pending.lock().clear();
        self.replaced.notify_waiters();
    }

    /// From now on what `change` makes of the policies decides, in which the first `latest` changes
    /// of the scope are loaded. Returns the policies of before, and those of now.
    pub(crate) fn change(
        &self,
        scope: &Scope,
        latest: u64,
        change: impl FnOnce(Option<&Policies>) -> Policies,
    ) -> (Option<Arc<Policies>>, Arc<Policies>) {
        let mut active = self.active.write();
        let after = Arc::new(change(active.as_deref()));
        let before = active.replace(after.clone());
        drop(active);
        self.pending.lock().loaded(scope, latest, Instant::now());
        self.replaced.notify_waiters();
        (before, after)
    }

    #[cfg(test)]
    pub(crate) fn pending(&self) -> parking_lot::MutexGuard<'_, Pending> {
        self.pending.lock()
    }

    /// Number of the latest change of a scope that is not loaded.
    pub(crate) fn latest(&self, scope: &Scope) -> Option<u64> {
        self.pending.lock().latest(scope)
    }

    /// The namespaces that have changed, the one that waits longest first, with when each began
    /// to wait.
    pub(crate) fn changed_namespaces(&self) -> Vec<(String, Instant)> {
        let pending = self.pending.lock();
        let all = pending.namespaces().into_iter();
        all.map(|(name, since)| (name.to_owned(), since)).collect()
    }

    /// Waits until the policies that decide in a namespace, those of the cluster and its own, are
    /// those of all changes that are known by now. Other namespaces do not count.
    pub async fn settled(&self, namespace: &str) {
        let scopes = [None, Some(namespace.to_owned())];
        let wanted = scopes.map(|scope| {
            let latest = self.latest(&scope);
            (scope, latest)
        });
        loop {
            let replaced = self.replaced.notified();
            let is_loaded = self.active.read().is_some() && {
                let pending = self.pending.lock();
                let mut wanted = wanted.iter();
                wanted.all(|(scope, latest)| pending.is_loaded(scope, *latest))
            };
            if is_loaded {
                return;
            }
            replaced.await;
        }
    }

    /// Waits until the policies of the cluster decide. Those of a namespace may come later
    /// ([`Policies::is_loaded`]): until then nothing is allowed there.
    pub async fn loaded(&self) {
        loop {
            let replaced = self.replaced.notified();
            if self.active.read().is_some() {
                return;
            }
            replaced.await;
        }
    }

    /// An object is new, changed or gone.
    pub(crate) fn touch(&self, key: &Key) {
        let scope = object_key(key).namespace;
        let changed = match scope {
            None => &self.cluster_changed,
            Some(_) => &self.namespace_changed,
        };
        self.pending.lock().touch(scope, Instant::now());
        changed.notify_one();
    }

    /// All objects of a kind have been shown once.
    pub(crate) fn listed(&self, is_cluster: bool) {
        let listed = match is_cluster {
            true => &self.cluster_listed,
            false => &self.namespaced_listed,
        };
        listed.store(true, Ordering::Release);
        self.cluster_changed.notify_one();
    }

    /// True once all objects of both kinds have been shown: before, a forbid may be missing.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.cluster_listed.load(Ordering::Acquire)
            && self.namespaced_listed.load(Ordering::Acquire)
    }

    /// Waits for a change of the cluster's policies since it was last waited for.
    pub(crate) async fn cluster_changed(&self) {
        self.cluster_changed.notified().await;
    }

    /// Waits for a change of a namespace's policies since it was last waited for.
    pub(crate) async fn namespace_changed(&self) {
        self.namespace_changed.notified().await;
    }

    /// The namespaces that have objects.
    pub(crate) fn namespaces(&self) -> BTreeSet<String> {
        let unreadable = self.unreadable.read();
        let unread = unreadable.keys().filter_map(|key| key.namespace.clone());
        let read = self.namespaced.all().into_iter();
        let read = read.filter_map(|object| object.metadata.namespace.clone());
        unread.chain(read).collect()
    }

    /// All objects of the cluster, or of a namespace, those that do not decode too.
    #[must_use]
    pub(crate) fn objects(&self, scope: &Scope) -> Vec<PolicyObject> {
        // Held meanwhile: an object is at no moment neither here nor there.
        let unreadable = self.unreadable.read();
        let of_scope = unreadable.iter().filter(|(key, _)| key.namespace == *scope);
        let unread = of_scope.map(|(key, object)| {
            PolicyObject::unreadable(key.clone(), object.uid.clone(), object.error.clone())
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
            .chain(unread)
            .collect()
    }
}
