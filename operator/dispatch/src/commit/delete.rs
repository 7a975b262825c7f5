//! Deletes pods, and applies the API server's answer to the cache at once.

use futures::{StreamExt, stream};
use tracing::debug;
use trellis_gang::keeper::Doomed;
use trellis_gang::key::Key;
use trellis_gang::observed::SlimPod;

use super::{Committer, Outcome};
use crate::Feed;
use crate::commands::Deletion;

/// Deletes of one gang in flight at once.
const DELETES: usize = 32;

impl Committer {
    /// Deletes pods. A refused delete is repeated when its pause is over.
    pub async fn delete(&self, job: &Key, pods: Vec<Doomed>) -> Outcome {
        let mut futures = Vec::with_capacity(pods.len());
        for pod in &pods {
            futures.push(self.delete_one(job, pod));
        }
        stream::iter(futures)
            .buffer_unordered(DELETES)
            .collect::<Vec<()>>()
            .await;
        Outcome::Done
    }

    async fn delete_one(&self, job: &Key, pod: &Doomed) {
        let deleted = self
            .commands
            .delete_as::<SlimPod>(&job.namespace, &pod.name, &pod.uid, pod.grace)
            .await;
        let key = Key::new(&job.namespace, &pod.name);
        match deleted {
            Ok(Deletion::Begun) => self.going(&key, &pod.uid),
            Ok(Deletion::Gone) => self.gone(job, key, &pod.uid),
            Err(error) => debug!(%job, pod = %key, %error, "not deleted"),
        }
    }

    /// Notes that a pod is terminating, whether or not the watch has shown it.
    pub(super) fn going(&self, pod: &Key, uid: &str) {
        self.context.cache.pods.deleting(pod, uid);
        self.context.cache.external_pods.deleting(pod, uid);
    }

    /// Notes that a pod is gone, whether or not the watch has shown it.
    pub(super) fn gone(&self, job: &Key, pod: Key, uid: &str) {
        let external = self.context.cache.external_pods.delete(&pod, uid).is_some();
        if self.context.cache.pods.delete(&pod, uid).is_some() || external {
            self.context.tell(Feed::PodGone(pod));
            self.context.touch(job.clone());
        }
    }
}
