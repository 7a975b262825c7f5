//! Evicts pods: a delete that a PodDisruptionBudget may postpone.

use futures::{StreamExt, stream};
use tracing::{debug, info};
use trellis_gang::gang_step::PodDeletion;
use trellis_gang::key::Key;

use super::Committer;
use crate::commands::EvictionResult;
use crate::task_outcome::TaskOutcome;

/// Most evictions of one gang in flight.
const MAX_CONCURRENT_EVICTIONS: usize = 32;

impl Committer {
    /// Evicts pods. Repeats a postponed eviction when its pause is over.
    pub(crate) async fn evict_pods(&self, job: &Key, pods: Vec<PodDeletion>) -> TaskOutcome {
        let mut futures = Vec::with_capacity(pods.len());
        for pod in &pods {
            futures.push(self.evict_pod(job, pod));
        }
        stream::iter(futures)
            .buffer_unordered(MAX_CONCURRENT_EVICTIONS)
            .collect::<Vec<()>>()
            .await;
        TaskOutcome::Done
    }

    async fn evict_pod(&self, job: &Key, pod: &PodDeletion) {
        let key = Key::new(&job.namespace, &pod.name);
        let evicted = self
            .commands
            .evict(&job.namespace, &pod.name, &pod.uid, pod.grace, false)
            .await;
        match evicted {
            Ok(EvictionResult::Started) => self.record_terminating_pod(&key, &pod.uid),
            Ok(EvictionResult::Gone) => self.record_gone_pod(job, key, &pod.uid),
            Ok(EvictionResult::Postponed(why)) => info!(%job, pod = %key, %why, "not evicted yet"),
            Err(error) => debug!(%job, pod = %key, %error, "not evicted"),
        }
    }
}
