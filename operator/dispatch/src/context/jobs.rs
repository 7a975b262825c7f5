//! TrainingJobs, as the watch shows them.

use trellis_api::TrainingJob;
use trellis_cache::watch::{Sink, Undecodable};
use trellis_gang::key::Key;

use super::WatchSink;

impl Sink<TrainingJob> for WatchSink {
    fn apply(&self, key: Key, object: TrainingJob) {
        // The job must always be in one of the two stores, because otherwise it counts as gone.
        let before = self.context.cache.jobs.get(&key);
        let is_as_before =
            (before.as_ref()).is_some_and(|before| has_same_spec_and_status(before, &object));
        let mut undecodable = self.context.cache.undecodable_jobs.write();
        let is_newer = self.context.cache.jobs.insert_observed(key.clone(), object);
        undecodable.remove(&key);
        drop(undecodable);
        // The cache may have a newer version, which the operator has written itself.
        if is_newer && !is_as_before {
            let now = self.context.cache.jobs.get(&key);
            self.context
                .record_job_change(before.as_deref(), now.as_deref());
        }
        match is_as_before {
            // Only an annotation or a managed field has changed, on which no place depends.
            true => self.context.work_queue.add(key),
            false => self.context.touch(key),
        }
    }

    fn undecodable(&self, key: &Key, object: Undecodable) {
        let mut undecodable = self.context.cache.undecodable_jobs.write();
        undecodable.insert(key.clone(), object);
        self.context.cache.jobs.remove(key);
        drop(undecodable);
        self.context.touch(key.clone());
    }

    fn delete(&self, key: &Key, uid: &str) {
        let mut undecodable = self.context.cache.undecodable_jobs.write();
        undecodable.remove(key);
        let before = self.context.cache.jobs.get(key);
        let before = before.filter(|before| before.metadata.uid.as_deref() == Some(uid));
        self.context.record_job_change(before.as_deref(), None);
        self.context.cache.jobs.delete_observed(key, uid);
        drop(undecodable);
        self.context.explanations.write().remove(key);
        self.context.touch(key.clone());
    }

    fn synced(&self) {
        self.mark_listed();
    }
}

/// Returns true if spec and status are unchanged.
fn has_same_spec_and_status(before: &TrainingJob, now: &TrainingJob) -> bool {
    let (a, b) = (&before.metadata, &now.metadata);
    a.uid == b.uid
        && a.generation == b.generation
        && a.deletion_timestamp == b.deletion_timestamp
        && before.status == now.status
}
