//! TrainingJobs, as the watch shows them.

use trellis_api::TrainingJob;
use trellis_cache::watch::{Sink, Undecodable};
use trellis_gang::key::Key;

use super::WatchSink;

impl Sink<TrainingJob> for WatchSink {
    fn apply(&self, key: Key, object: TrainingJob) {
        // The job must be in one of the two stores at any moment, because otherwise it counts as
        // gone.
        let before = self.context.cache.jobs.get(&key);
        let is_as_before = before.is_some_and(|before| is_same(&before, &object));
        let mut undecodable = self.context.cache.undecodable.write();
        self.context.cache.jobs.observed(key.clone(), object);
        undecodable.remove(&key);
        drop(undecodable);
        match is_as_before {
            // An annotation or a managed field has changed, on which no place depends.
            true => self.context.work.add(key),
            false => self.context.touch(key),
        }
    }

    fn undecodable(&self, key: &Key, object: Undecodable) {
        let mut undecodable = self.context.cache.undecodable.write();
        undecodable.insert(key.clone(), object);
        self.context.cache.jobs.remove(key);
        drop(undecodable);
        self.context.touch(key.clone());
    }

    fn delete(&self, key: &Key, uid: &str) {
        let mut undecodable = self.context.cache.undecodable.write();
        undecodable.remove(key);
        self.context.cache.jobs.deleted(key, uid);
        drop(undecodable);
        self.context.certificates.write().remove(key);
        self.context.touch(key.clone());
    }

    fn synced(&self) {
        self.listed();
    }
}

/// True if spec and status are unchanged.
fn is_same(before: &TrainingJob, now: &TrainingJob) -> bool {
    let (a, b) = (&before.metadata, &now.metadata);
    a.uid == b.uid
        && a.generation == b.generation
        && a.deletion_timestamp == b.deletion_timestamp
        && before.status == now.status
}
