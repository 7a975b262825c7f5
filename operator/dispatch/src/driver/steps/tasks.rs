//! Starts the tasks that carry out a gang's step.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use trellis_api::pod_group::PodGroupStatus;
use trellis_gang::gang_step::{MissingPod, PodDeletion};
use trellis_gang::key::Key;
use trellis_gang::{AuthorizedAttempt, external};

use super::task::GangTask;
use crate::driver::Driver;
use crate::task_outcome::TaskOutcome;
use crate::{SchedulerEvent, span};

impl Driver {
    /// Creates pods of a placed gang.
    pub(super) fn create_missing_pods(
        &mut self,
        job: &Key,
        journal: &PodGroupStatus,
        vacancies: Vec<MissingPod>,
    ) {
        let Some(state) = self.gangs.get(job) else {
            return;
        };
        let (Some(run), Some(plan)) = (state.run().cloned(), journal.plan.clone()) else {
            return;
        };
        let counted = state.admitted.clone();
        let committer = self.committer.clone();
        let key = job.clone();
        self.start_task(job, Some(run.clone()), |stop| async move {
            committer
                .create_missing_pods(&key, &run, &plan, &vacancies, &counted, &stop)
                .await
        });
    }

    pub(super) fn evict_pods(&mut self, job: &Key, pods: Vec<PodDeletion>, now: Instant) {
        self.record_deletions(job, &pods, now);
        let committer = self.committer.clone();
        let key = job.clone();
        self.start_task(job, None, |_| async move {
            committer.evict_pods(&key, pods).await
        });
    }

    pub(super) fn delete_pods(&mut self, job: &Key, pods: Vec<PodDeletion>, now: Instant) {
        self.record_deletions(job, &pods, now);
        let committer = self.committer.clone();
        let key = job.clone();
        self.start_task(job, None, |_| async move {
            committer.delete_pods(&key, pods).await
        });
    }

    fn record_deletions(&mut self, job: &Key, pods: &[PodDeletion], now: Instant) {
        if let Some(state) = self.gangs.get_mut(job) {
            for pod in pods {
                state.deletions.record_request(&pod.uid, pod.force, now);
            }
        }
    }

    /// Writes the journal in a task.
    pub(in crate::driver) fn write_journal<F>(&mut self, job: &Key, change: F)
    where
        F: FnOnce(&PodGroupStatus) -> Option<PodGroupStatus> + Send + 'static,
    {
        let Some(uid) = self.job_uid(job) else { return };
        let committer = self.committer.clone();
        let key = job.clone();
        self.start_task(job, None, |_| async move {
            match committer.write_journal(&key, &uid, change).await {
                Ok(()) => TaskOutcome::Done,
                Err(outcome) => outcome,
            }
        });
    }

    /// Starts the one task of a gang. The caller has checked that none is under way.
    pub(in crate::driver) fn start_task<F>(
        &mut self,
        job: &Key,
        run: Option<Arc<AuthorizedAttempt>>,
        task: impl FnOnce(CancellationToken) -> F,
    ) where
        F: Future<Output = TaskOutcome> + Send + 'static,
    {
        let stop = CancellationToken::new();
        if external::is_external(job) {
            self.set_external_task(job, stop.clone());
        } else {
            let (Some(uid), Some(state)) = (self.job_uid(job), self.gangs.get_mut(job)) else {
                return;
            };
            state.task = Some(GangTask {
                uid,
                run,
                stop: stop.clone(),
            });
        }
        let context = self.committer.context().clone();
        let task = tokio::spawn(task(stop).instrument(span!("task", %job)));
        let job = job.clone();
        tokio::spawn(async move {
            // A task that panics has ended, too. Otherwise its gang would wait forever.
            let outcome = task
                .await
                .unwrap_or_else(|error| TaskOutcome::Retry(error.to_string()));
            context.send_event(SchedulerEvent::TaskEnded(job, outcome));
        });
    }
}
