//! Evicts pods: a delete that a PodDisruptionBudget may postpone.

use futures::{StreamExt, stream};
use tracing::{debug, info};
use trellis_gang::keeper::Doomed;
use trellis_gang::key::Key;

use super::{Committer, Outcome};
use crate::commands::Eviction;

/// Evictions of one gang in flight at once.
const EVICTIONS: usize = 32;

impl Committer {
    /// Evicts pods. A postponed eviction is repeated when its pause is over.
    pub async fn evict(&self, job: &Key, pods: Vec<Doomed>) -> Outcome {
        let mut futures = Vec::with_capacity(pods.len());
        for pod in &pods {
            futures.push(self.evict_one(job, pod));
        }
        stream::iter(futures)
            .buffer_unordered(EVICTIONS)
            .collect::<Vec<()>>()
            .await;
        Outcome::Done
    }

    async fn evict_one(&self, job: &Key, pod: &Doomed) {
        let key = Key::new(&job.namespace, &pod.name);
        let evicted = self
            .commands
            .evict(&job.namespace, &pod.name, &pod.uid, pod.grace, false)
            .await;
        match evicted {
            Ok(Eviction::Begun) => self.going(&key, &pod.uid),
            Ok(Eviction::Gone) => self.gone(job, key, &pod.uid),
            Ok(Eviction::Kept(why)) => info!(%job, pod = %key, %why, "not evicted yet"),
            Err(error) => debug!(%job, pod = %key, %error, "not evicted"),
        }
    }
}
