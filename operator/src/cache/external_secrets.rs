//! ExternalSecrets of our jobs, as the watch shows them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

use crate::cache::watch::Store;
use crate::gang::key::Key;
use crate::gang::observed::SlimExternalSecret;

/// The ExternalSecrets of our jobs.
#[derive(Debug, Default)]
pub struct ExternalSecrets {
    /// By their own names.
    pub objects: Store<SlimExternalSecret>,
    /// Names by job.
    of_jobs: RwLock<HashMap<Key, BTreeSet<Arc<str>>>>,
    /// The cluster knows the kind.
    pub(crate) is_known: AtomicBool,
}

impl ExternalSecrets {
    /// True if the cluster knows the kind: where External Secrets Operator is installed.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire)
    }

    /// Those that bear the job as their owner, whether of its uid or of an earlier one's.
    #[must_use]
    pub fn of(&self, job: &Key) -> Vec<(Key, Arc<SlimExternalSecret>)> {
        let names = self.of_jobs.read();
        let names = names.get(job).into_iter().flatten();
        let keys = names.map(|name| Key {
            namespace: job.namespace.clone(),
            name: name.clone(),
        });
        keys.filter_map(|key| Some((key.clone(), self.objects.get(&key)?)))
            .collect()
    }

    /// A create or a read of ours has found one of the job's.
    pub fn found(&self, job: &Key, key: &Key) {
        let mut names = self.of_jobs.write();
        let names = names.entry(job.clone()).or_default();
        names.insert(key.name.clone());
    }

    /// What is not there any more is nobody's.
    pub(crate) fn forget(&self, job: &Key, key: &Key) {
        let mut names = self.of_jobs.write();
        if let Some(of_job) = names.get_mut(job) {
            of_job.remove(&key.name);
            if of_job.is_empty() {
                names.remove(job);
            }
        }
    }
}
