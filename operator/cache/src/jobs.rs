//! One job, as the watch shows it.

use std::sync::Arc;

use trellis_api::TrainingJob;
use trellis_gang::key::Key;

use super::Cache;
use crate::watch::Undecodable;

/// A job, decoded if possible.
#[derive(Clone, Debug)]
pub enum CachedJob {
    /// The job decodes.
    Job(Arc<TrainingJob>),
    /// The job does not decode.
    Undecodable(Undecodable),
}

impl Cache {
    /// Returns the current job with this name. None if it does not exist.
    #[must_use]
    pub fn job(&self, key: &Key) -> Option<CachedJob> {
        let undecodable = self.undecodable_jobs.read();
        match undecodable.get(key) {
            Some(job) => Some(CachedJob::Undecodable(job.clone())),
            None => self.jobs.get(key).map(CachedJob::Job),
        }
    }
}
