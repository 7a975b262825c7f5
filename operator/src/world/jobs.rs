//! TrainingJobs, as the watch shows them.

use std::sync::Arc;

use trellis_api::TrainingJob;

use super::{Watched, World};
use crate::key::Key;
use crate::watch::{Sink, Undecodable};

/// A job, as far as it can be read.
#[derive(Clone, Debug)]
pub enum Seen {
    /// It decodes.
    Job(Arc<TrainingJob>),
    /// It does not.
    Undecodable(Undecodable),
}

impl World {
    /// The job of that name as it is at one moment. None: there is none.
    #[must_use]
    pub fn job(&self, key: &Key) -> Option<Seen> {
        let undecodable = self.undecodable.read();
        match undecodable.get(key) {
            Some(job) => Some(Seen::Undecodable(job.clone())),
            None => self.jobs.get(key).map(Seen::Job),
        }
    }
}

impl Sink<TrainingJob> for Watched {
    fn apply(&self, key: Key, object: TrainingJob) {
        // At no moment is it neither here nor there: that would be a job that is gone.
        let before = self.world.jobs.get(&key);
        let is_as_before = before.is_some_and(|before| is_same(&before, &object));
        let mut undecodable = self.world.undecodable.write();
        self.world.jobs.observed(key.clone(), object);
        undecodable.remove(&key);
        drop(undecodable);
        match is_as_before {
            // An annotation, or who manages a field: nothing that a place hangs on.
            true => self.world.work.add(key),
            false => self.world.touch(key),
        }
    }

    fn undecodable(&self, key: &Key, object: Undecodable) {
        let mut undecodable = self.world.undecodable.write();
        undecodable.insert(key.clone(), object);
        self.world.jobs.remove(key);
        drop(undecodable);
        self.world.touch(key.clone());
    }

    fn delete(&self, key: &Key, uid: &str) {
        let mut undecodable = self.world.undecodable.write();
        undecodable.remove(key);
        self.world.jobs.deleted(key, uid);
        drop(undecodable);
        self.world.certificates.write().remove(key);
        self.world.touch(key.clone());
    }

    fn synced(&self) {
        self.listed();
    }
}

/// True if neither what is asked for nor what is said has changed.
fn is_same(before: &TrainingJob, now: &TrainingJob) -> bool {
    let (a, b) = (&before.metadata, &now.metadata);
    a.uid == b.uid
        && a.generation == b.generation
        && a.deletion_timestamp == b.deletion_timestamp
        && before.status == now.status
}
