//! ExternalSecrets of our jobs, as the watch shows them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::Resource;
use parking_lot::RwLock;
use trellis_api::job::JobSecret;
use trellis_api::owner;

use super::Watched;
use crate::key::Key;
use crate::watch::{Sink, SlimExternalSecret, Store, Undecodable};

/// The ExternalSecrets of our jobs.
#[derive(Debug, Default)]
pub struct ExternalSecrets {
    /// By their own names.
    pub objects: Store<SlimExternalSecret>,
    /// Names by job.
    of_jobs: RwLock<HashMap<Key, BTreeSet<Arc<str>>>>,
    /// The cluster knows the kind.
    is_known: AtomicBool,
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
    fn forget(&self, job: &Key, key: &Key) {
        let mut names = self.of_jobs.write();
        if let Some(of_job) = names.get_mut(job) {
            of_job.remove(&key.name);
            if of_job.is_empty() {
                names.remove(job);
            }
        }
    }
}

/// The job that owns it.
fn job_of(key: &Key, object: &SlimExternalSecret) -> Option<Key> {
    let job = owner::training_job(object.meta());
    job.map(|job| Key::new(&key.namespace, &job.name))
}

impl Watched {
    /// It is not shown any more.
    fn external_secret_gone(&self, key: &Key, gone: impl FnOnce()) {
        let all = &self.world.external_secrets;
        let before = all.objects.get(key);
        let job = before.and_then(|before| job_of(key, &before));
        gone();
        if let Some(job) = job {
            if all.objects.get(key).is_none() {
                all.forget(&job, key);
            }
            self.world.touch(job);
        }
    }

    fn external_secrets_known(&self, known: bool) {
        let before = &self.world.external_secrets.is_known;
        if before.swap(known, Ordering::AcqRel) != known {
            let is_stored = |secret: &JobSecret| secret.store.is_some();
            self.world
                .look_again_at(|job| job.spec.secrets.iter().any(is_stored));
        }
    }
}

impl Sink<SlimExternalSecret> for Watched {
    /// A cluster without External Secrets Operator has none.
    const MAY_BE_ABSENT: bool = true;

    fn apply(&self, key: Key, object: SlimExternalSecret) {
        let all = &self.world.external_secrets;
        let before = all.objects.get(&key);
        let owners = [before.as_deref(), Some(&object)].map(|o| job_of(&key, o?));
        let changed = before.is_none_or(|before| !before.is_like(&object));
        all.objects.observed(key.clone(), object);
        let [before, now] = owners;
        if let Some(job) = before.filter(|job| Some(job) != now.as_ref()) {
            all.forget(&job, &key);
            self.world.touch(job);
        }
        if let Some(job) = now {
            all.found(&job, &key);
            if changed {
                self.world.touch(job);
            }
        }
    }

    fn undecodable(&self, key: &Key, _: Undecodable) {
        let all = &self.world.external_secrets.objects;
        self.external_secret_gone(key, || drop(all.remove(key)));
    }

    fn delete(&self, key: &Key, uid: &str) {
        let all = &self.world.external_secrets.objects;
        self.external_secret_gone(key, || all.deleted(key, uid));
    }

    fn ghosts(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        let all = &self.world.external_secrets.objects;
        all.ghosts(listed, version)
    }

    fn synced(&self) {
        self.external_secrets_known(true);
        self.listed();
    }

    fn unknown(&self) {
        self.external_secrets_known(false);
        self.listed();
    }
}
