//! Deletes pods, and applies the API server's answer to the cache at once.

use futures::{StreamExt, stream};
use tracing::debug;
use trellis_gang::gang_step::PodDeletion;
use trellis_gang::key::Key;
use trellis_gang::observed::SlimPod;

use super::Committer;
use crate::SchedulerEvent;
use crate::commands::DeletionResult;
use crate::task_outcome::TaskOutcome;

/// Most deletes of one gang in flight.
const MAX_CONCURRENT_DELETES: usize = 32;

impl Committer {
    /// Deletes pods. Repeats a refused delete when its pause is over.
    pub(crate) async fn delete_pods(&self, job: &Key, pods: Vec<PodDeletion>) -> TaskOutcome {
        let mut futures = Vec::with_capacity(pods.len());
        for pod in &pods {
            futures.push(self.delete_pod(job, pod));
        }
        stream::iter(futures)
            .buffer_unordered(MAX_CONCURRENT_DELETES)
            .collect::<Vec<()>>()
            .await;
        TaskOutcome::Done
    }

    async fn delete_pod(&self, job: &Key, pod: &PodDeletion) {
        let deleted = self
            .commands
            .delete_and_report::<SlimPod>(&job.namespace, &pod.name, &pod.uid, pod.grace)
            .await;
        let key = Key::new(&job.namespace, &pod.name);
        match deleted {
            Ok(DeletionResult::Started) => self.record_terminating_pod(&key, &pod.uid),
            Ok(DeletionResult::Gone) => self.record_gone_pod(job, key, &pod.uid),
            Err(error) => debug!(%job, pod = %key, %error, "not deleted"),
        }
    }

    /// Records that a pod is terminating, even if the watch has not shown it.
    pub(super) fn record_terminating_pod(&self, pod: &Key, uid: &str) {
        self.context.cache.pods.mark_deleting(pod, uid);
        self.context.cache.external_pods.mark_deleting(pod, uid);
    }

    /// Records that a pod is gone, even if the watch has not shown it.
    pub(super) fn record_gone_pod(&self, job: &Key, pod: Key, uid: &str) {
        let external = self.context.cache.external_pods.delete(&pod, uid).is_some();
        if self.context.cache.pods.delete(&pod, uid).is_some() || external {
            self.context.send_event(SchedulerEvent::PodGone(pod));
            self.context.touch(job.clone());
        }
    }
}
