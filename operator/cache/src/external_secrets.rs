//! ExternalSecrets of our jobs, as the watch shows them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use trellis_gang::key::Key;
use trellis_gang::observed::SlimExternalSecret;

use crate::watch::Store;

/// The ExternalSecrets of our jobs.
#[derive(Debug, Default)]
pub struct ExternalSecrets {
    /// The objects by their own names.
    pub objects: Store<SlimExternalSecret>,
    /// Names of the ExternalSecrets of each job.
    names_by_job: RwLock<HashMap<Key, BTreeSet<Arc<str>>>>,
    /// True if the cluster knows the kind.
    pub is_known: AtomicBool,
}

impl ExternalSecrets {
    /// Returns true if the cluster knows the kind: External Secrets Operator is installed.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire)
    }

    /// Returns the ExternalSecrets whose owner has the job's name. The owner's uid does not matter.
    #[must_use]
    pub fn for_job(&self, job: &Key) -> Vec<(Key, Arc<SlimExternalSecret>)> {
        let names = self.names_by_job.read();
        let names = names.get(job).into_iter().flatten();
        let keys = names.map(|name| Key {
            namespace: job.namespace.clone(),
            name: name.clone(),
        });
        keys.filter_map(|key| Some((key.clone(), self.objects.get(&key)?)))
            .collect()
    }

    /// Records an ExternalSecret of the job that a create or a read returned.
    pub fn insert(&self, job: &Key, key: &Key) {
        let mut names = self.names_by_job.write();
        let names = names.entry(job.clone()).or_default();
        names.insert(key.name.clone());
    }

    /// Removes a deleted ExternalSecret from its job.
    pub fn remove(&self, job: &Key, key: &Key) {
        let mut names = self.names_by_job.write();
        if let Some(of_job) = names.get_mut(job) {
            of_job.remove(&key.name);
            if of_job.is_empty() {
                names.remove(job);
            }
        }
    }
}
