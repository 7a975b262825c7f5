//! ExternalSecrets of our jobs, as the watch shows them.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use kube::Resource;
use trellis_api::job::JobSecret;
use trellis_api::owner;
use trellis_cache::watch::{Sink, Undecodable};
use trellis_gang::key::Key;
use trellis_gang::observed::SlimExternalSecret;

use super::WatchSink;

/// Returns the job that owns the ExternalSecret.
fn owning_job(key: &Key, object: &SlimExternalSecret) -> Option<Key> {
    let job = owner::controlling_job(object.meta());
    job.map(|job| Key::new(&key.namespace, &job.name))
}

impl WatchSink {
    /// Removes an ExternalSecret from the cache, and updates its job.
    fn remove_external_secret(&self, key: &Key, remove: impl FnOnce()) {
        let all = &self.context.cache.external_secrets;
        let before = all.objects.get(key);
        let job = before.and_then(|before| owning_job(key, &before));
        remove();
        if let Some(job) = job {
            if all.objects.get(key).is_none() {
                all.remove(&job, key);
            }
            self.context.touch(job);
        }
    }

    fn set_external_secrets_known(&self, known: bool) {
        let before = &self.context.cache.external_secrets.is_known;
        if before.swap(known, Ordering::AcqRel) != known {
            let is_stored = |secret: &JobSecret| secret.store.is_some();
            self.context
                .requeue_jobs(|job| job.spec.secrets.iter().any(is_stored));
        }
    }
}

impl Sink<SlimExternalSecret> for WatchSink {
    /// A cluster without External Secrets Operator does not know the kind.
    const MAY_BE_ABSENT: bool = true;

    fn apply(&self, key: Key, object: SlimExternalSecret) {
        let all = &self.context.cache.external_secrets;
        let before = all.objects.get(&key);
        let owners = [before.as_deref(), Some(&object)].map(|o| owning_job(&key, o?));
        let changed = before.is_none_or(|before| !before.is_equal_for_jobs(&object));
        all.objects.insert_observed(key.clone(), object);
        let [before, now] = owners;
        if let Some(job) = before.filter(|job| Some(job) != now.as_ref()) {
            all.remove(&job, &key);
            self.context.touch(job);
        }
        if let Some(job) = now {
            all.insert(&job, &key);
            if changed {
                self.context.touch(job);
            }
        }
    }

    fn undecodable(&self, key: &Key, _: Undecodable) {
        let all = &self.context.cache.external_secrets.objects;
        self.remove_external_secret(key, || drop(all.remove(key)));
    }

    fn delete(&self, key: &Key, uid: &str) {
        let all = &self.context.cache.external_secrets.objects;
        self.remove_external_secret(key, || all.delete_observed(key, uid));
    }

    fn unlisted_objects(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        let all = &self.context.cache.external_secrets.objects;
        all.unlisted_objects(listed, version)
    }

    fn synced(&self) {
        self.set_external_secrets_known(true);
        self.mark_listed();
    }

    fn kind_unknown(&self) {
        self.set_external_secrets_known(false);
        self.mark_listed();
    }
}
