//! Predicts how long runs take from earlier runs.
//!
//! The history is kept in memory. A new leader learns it again from the complete jobs that still
//! exist; the history of deleted jobs is lost.

use std::collections::BTreeSet;

use trellis_gang::CompletedRun;
use trellis_gang::key::Key;
use trellis_scheduler::{Gang, QueueName};

use super::{Driver, EngineState};

impl Driver {
    /// Learns from the complete jobs that still exist.
    pub(super) fn learn_past_runs(&mut self) {
        let jobs = self.committer.cache().jobs.all();
        let runs = jobs.iter().filter_map(|job| {
            let uid = job.metadata.uid.as_deref()?;
            let key = Key::from_meta(&job.metadata);
            CompletedRun::from_status(&key, uid, job.status.as_ref()?)
        });
        let mut runs: Vec<_> = runs.collect();
        // The last runs count.
        runs.sort_by_key(|run| run.completed);
        for run in &runs {
            self.learn_run(run, &mut BTreeSet::new());
        }
    }

    /// Learns once from a completed run. If the queue's prediction changes, wakes the gangs that
    /// wait in the queue.
    pub(super) fn learn_run(&mut self, run: &CompletedRun, to_advance: &mut BTreeSet<Key>) {
        let known = self.learned_runs.insert(run.job.clone(), run.uid.clone());
        if known.as_ref() == Some(&run.uid) {
            return;
        }
        let queue = QueueName::new(run.queue.as_str());
        if self
            .predictor
            .observe(&run.job.to_string(), &queue, run.run_time)
        {
            let waiting = self.gangs.iter().filter(|(_, gang)| {
                let attempt = gang.run();
                gang.engine_state == EngineState::Waiting
                    && attempt.is_some_and(|attempt| attempt.job.compiled().queue() == run.queue)
            });
            to_advance.extend(waiting.map(|(job, _)| job.clone()));
        }
    }

    /// Adds the predicted run time to a gang: from earlier runs of its name, else, if neither the
    /// gang nor its queue gives one, from other runs of the queue.
    pub(super) fn with_prediction(&self, job: &Key, gang: Gang) -> Gang {
        let by_name = self.predictor.predict(&job.to_string());
        let predicted = by_name.or_else(|| {
            let declared = gang.runtime.or(self.engine.default_runtime(&gang.queue));
            let unknown = declared.is_none();
            unknown
                .then(|| self.predictor.predict_for_queue(&gang.queue))
                .flatten()
        });
        Gang { predicted, ..gang }
    }
}

#[cfg(test)]
mod tests {
    use trellis_api::TrainingJob;
    use trellis_cache::watch::Sink;

    use super::super::tests::{decoded, driver};
    use super::*;
    use crate::SchedulerEvent;
    use crate::context::WatchSink;

    /// Returns a job that ran from one hour to another.
    fn complete_job(name: &str, placed: i64, completed: i64) -> TrainingJob {
        let time = |hour: i64| format!("2026-01-01T{hour:02}:00:00Z");
        decoded(serde_json::json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name, "namespace": "team-a", "uid": name},
            "spec": {"taskGroups": []},
            "status": {"phase": "Complete", "queue": "default",
                "scheduledTime": time(placed), "completionTime": time(completed)},
        }))
    }

    fn predicted_seconds(driver: &Driver, name: &str) -> Option<i64> {
        let job = Key::new("team-a", name).to_string();
        let predicted = driver.predictor.predict(&job)?;
        i64::try_from(predicted.as_secs()).ok()
    }

    fn completed_run(job: &TrainingJob) -> CompletedRun {
        let key = Key::from_meta(&job.metadata);
        let uid = job.metadata.uid.as_deref().unwrap();
        CompletedRun::from_status(&key, uid, job.status.as_ref().unwrap()).unwrap()
    }

    /// A user may delete a job as soon as its status says that it is complete.
    #[tokio::test]
    async fn run_of_a_deleted_job_is_learned_once() {
        let mut driver = driver();
        // The prediction is the average of the last two runs.
        for (uid, placed, completed) in [("a", 1, 3), ("b", 4, 8), ("b", 4, 8)] {
            let mut job = complete_job("llm", placed, completed);
            job.metadata.uid = Some(uid.to_owned());
            let event = SchedulerEvent::RunCompleted(completed_run(&job));
            driver.handle_event(event, &mut BTreeSet::new());
        }
        assert_eq!(predicted_seconds(&driver, "llm"), Some(10_800));
    }

    #[tokio::test]
    async fn new_leader_learns_the_runs_of_existing_jobs_once() {
        let mut driver = driver();
        let context = driver.committer.context().clone();
        let watched = WatchSink::new(&context);
        let mut earlier = complete_job("llm", 1, 5);
        earlier.metadata.uid = Some("earlier".to_owned());
        driver.learn_run(&completed_run(&earlier), &mut BTreeSet::new());
        let llm = complete_job("llm", 1, 3);
        watched.apply(Key::new("team-a", "llm"), llm.clone());
        watched.apply(Key::new("team-a", "other"), complete_job("other", 5, 9));
        driver.take_over().await;
        // The job completed while the leader listed the jobs.
        driver.learn_run(&completed_run(&llm), &mut BTreeSet::new());
        assert_eq!(predicted_seconds(&driver, "llm"), Some(10_800));
        assert_eq!(predicted_seconds(&driver, "other"), Some(14_400));
        assert_eq!(predicted_seconds(&driver, "unknown"), None);
    }
}
