//! TrainingJobs, as the watch shows them.

use trellis_api::TrainingJob;

use super::Watched;
use crate::key::Key;
use crate::watch::{Sink, Undecodable};

impl Sink<TrainingJob> for Watched {
    fn apply(&self, key: Key, object: TrainingJob) {
        self.world.undecodable.write().remove(&key);
        self.world.jobs.observed(key.clone(), object);
        self.world.touch(key);
    }

    fn undecodable(&self, key: &Key, object: Undecodable) {
        let mut all = self.world.undecodable.write();
        all.insert(key.clone(), object);
        drop(all);
        self.world.jobs.remove(key);
        self.world.touch(key.clone());
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.world.undecodable.write().remove(key);
        self.world.jobs.deleted(key, uid);
        self.world.certificates.write().remove(key);
        self.world.touch(key.clone());
    }

    fn synced(&self) {
        self.listed();
    }
}
