//! Predicts how long runs take from earlier runs.
//!
//! The history is kept in memory. A new leader learns it again from the ended jobs that still
//! exist; that of deleted jobs is lost.

use std::collections::BTreeSet;
use std::time::Duration;

use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_gang::key::Key;
use trellis_scheduler::{Gang, QueueName};

use super::{Driver, EngineState};

impl Driver {
    /// Learns the run time of a job that has ended. If the queue's prediction changes, the gangs
    /// that wait in the queue are looked at.
    pub(super) fn learn_run_time(&mut self, job: &Key, touched: &mut BTreeSet<Key>) {
        let context = self.committer.context();
        let Some(ended) = context.cache.jobs.get(job) else {
            return;
        };
        let Some(status) = &ended.status else { return };
        // Its last attempt was of its last stage, and says nothing of the first.
        if status.stage.is_some() {
            return;
        }
        let (Some(ran), Some(queue)) = (run_time(status), &status.queue) else {
            return;
        };
        let queue = QueueName::new(queue.as_str());
        if self.predictor.observe(&job.to_string(), &queue, ran) {
            let waiting = self.gangs.iter().filter(|(_, gang)| {
                let there =
                    |run: &super::AuthorizedAttempt| run.job.compiled().queue() == queue.as_str();
                gang.engine_state == EngineState::Waiting
                    && gang.run().is_some_and(|run| there(run))
            });
            touched.extend(waiting.map(|(job, _)| job.clone()));
        }
    }

    /// Adds the predicted run time to a gang: from earlier runs of its name, else, if neither the
    /// gang nor its queue gives one, from other runs of the queue.
    pub(super) fn with_prediction(&self, job: &Key, gang: Gang) -> Gang {
        let by_name = self.predictor.predict(&job.to_string());
        let predicted = by_name.or_else(|| {
            let said = gang.runtime.or(self.engine.default_runtime(&gang.queue));
            let unknown = said.is_none();
            unknown
                .then(|| self.predictor.predict_for_queue(&gang.queue))
                .flatten()
        });
        Gang { predicted, ..gang }
    }
}

/// How long the last attempt of a job held its place. None unless the job is complete: a failed run
/// says nothing about a successful one.
fn run_time(status: &TrainingJobStatus) -> Option<Duration> {
    if status.phase != Some(JobPhase::Complete) {
        return None;
    }
    let since = status.scheduled_time.as_ref()?.0;
    let until = status.completion_time.as_ref()?.0;
    Duration::try_from(until.duration_since(since)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn complete_job_yields_the_run_time_of_its_last_attempt() {
        let of = |phase: &str, scheduled: Option<&str>| {
            let status = json!({
                "phase": phase,
                "queuedTime": "2026-01-01T00:00:00Z",
                "scheduledTime": scheduled,
                "completionTime": "2026-01-01T03:00:00Z",
            });
            run_time(&serde_json::from_value(status).unwrap())
        };
        let placed = Some("2026-01-01T01:00:00Z");
        assert_eq!(of("Complete", placed), Some(Duration::from_hours(2)));
        assert_eq!(of("Failed", placed), None);
        assert_eq!(of("Complete", None), None);
        // Clocks of two leaders.
        assert_eq!(of("Complete", Some("2026-01-01T04:00:00Z")), None);
    }
}
