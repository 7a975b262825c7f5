//! One job, as the watch shows it.

use std::sync::Arc;

use trellis_api::TrainingJob;

use super::Cache;
use crate::cache::watch::Undecodable;
use crate::gang::key::Key;

/// A job, as far as it can be read.
#[derive(Clone, Debug)]
pub enum Seen {
    /// It decodes.
    Job(Arc<TrainingJob>),
    /// It does not.
    Undecodable(Undecodable),
}

impl Cache {
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
