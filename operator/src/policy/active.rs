//! The policy objects as the watches show them, and the policies that decide.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use tokio::sync::Notify;
use trellis_api::{AuthorizationPolicy, ClusterAuthorizationPolicy};
use trellis_policies::AuthorizedJob;
use trellis_policies::cedar::{ObjectKey, Policies, PolicyObject};

use super::Violations;
use crate::key::Key;
use crate::watch::{Store, Undecodable};

/// The policies of the cluster.
#[derive(Debug, Default)]
pub struct PolicySet {
    /// ClusterAuthorizationPolicies.
    pub cluster: Store<ClusterAuthorizationPolicy>,
    /// AuthorizationPolicies.
    pub namespaced: Store<AuthorizationPolicy>,
    /// Those of either kind that do not decode.
    pub unreadable: RwLock<BTreeMap<ObjectKey, Undecodable>>,
    /// What of jobs they deny that is not refused.
    pub violations: Violations,
    cluster_listed: AtomicBool,
    namespaced_listed: AtomicBool,
    changed: Notify,
    /// How many changes there were.
    changes: AtomicU64,
    /// How many of them the active policies know of.
    known: AtomicU64,
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

    /// From now on these decide.
    pub fn replace(&self, policies: Arc<Policies>) {
        self.replace_as_of(self.changes(), policies);
    }

    /// From now on these decide, which were made when there had been so many changes.
    pub(super) fn replace_as_of(&self, changes: u64, policies: Arc<Policies>) {
        *self.active.write() = Some(policies);
        self.known.store(changes, Ordering::Release);
        self.replaced.notify_waiters();
    }

    /// How many changes of objects there were.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Waits until the policies that decide are those of all changes that are known by now.
    pub async fn settled(&self) {
        let changes = self.changes();
        loop {
            let replaced = self.replaced.notified();
            let is_loaded = self.active.read().is_some();
            if is_loaded && self.known.load(Ordering::Acquire) >= changes {
                return;
            }
            replaced.await;
        }
    }

    /// Waits until there are policies that decide.
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
    pub(crate) fn touch(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
    }

    /// All objects of a kind have been shown once.
    pub(crate) fn listed(&self, is_cluster: bool) {
        let listed = match is_cluster {
            true => &self.cluster_listed,
            false => &self.namespaced_listed,
        };
        listed.store(true, Ordering::Release);
        self.touch();
    }

    /// True once all objects of both kinds have been shown: before, a forbid may be missing.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.cluster_listed.load(Ordering::Acquire)
            && self.namespaced_listed.load(Ordering::Acquire)
    }

    /// Waits for a change since it was last waited for.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// All objects, those that do not decode too.
    #[must_use]
    pub fn objects(&self) -> Vec<PolicyObject> {
        // Held meanwhile: an object is at no moment neither here nor there.
        let unreadable = self.unreadable.read();
        let unread = unreadable.iter().map(|(key, object)| {
            PolicyObject::unreadable(key.clone(), object.uid.clone(), object.error.clone())
        });
        let cluster = self.cluster.all();
        let namespaced = self.namespaced.all();
        let cluster = cluster.iter().map(|object| PolicyObject::from(&**object));
        let namespaced = namespaced
            .iter()
            .map(|object| PolicyObject::from(&**object));
        let read = cluster.chain(namespaced);
        read.filter(|object| !unreadable.contains_key(&object.key))
            .chain(unread)
            .collect()
    }
}
