//! TrainingJobs, as the watch shows them.

use kube::core::DeserializeGuard;
use tracing::warn;
use trellis_api::TrainingJob;

use super::Watched;
use crate::key::Key;
use crate::watch::Sink;

impl Sink<DeserializeGuard<TrainingJob>> for Watched {
    fn apply(&self, key: Key, object: DeserializeGuard<TrainingJob>) {
        match object.0 {
            Ok(job) => {
                self.world.undecodable.write().remove(&key);
                self.world.jobs.observed(key.clone(), job);
            }
            Err(error) => {
                warn!(job = %key, %error, "a TrainingJob does not decode");
                self.world
                    .undecodable
                    .write()
                    .insert(key.clone(), error.into());
                self.world.jobs.remove(&key);
            }
        }
        self.world.touch(key);
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
