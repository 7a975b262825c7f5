//! Tracks one job through the events of a watch. Pure.

use kube::runtime::watcher::Event;
use trellis_api::TrainingJob;

/// The followed job. It may be deleted, also while the watch is interrupted.
#[derive(Debug)]
pub struct WatchedJob {
    uid: Option<String>,
    /// None: the job is deleted.
    job: Option<TrainingJob>,
    /// The job, if the current list has shown it.
    listed: Option<TrainingJob>,
}

impl WatchedJob {
    /// Starts with a job that exists.
    pub fn from_job(job: TrainingJob) -> Self {
        Self {
            uid: job.metadata.uid.clone(),
            job: Some(job),
            listed: None,
        }
    }

    /// The job as it was last seen. None: the job is deleted.
    pub const fn current(&self) -> Option<&TrainingJob> {
        self.job.as_ref()
    }

    /// Applies an event of a watch on the job's name.
    /// A job with another uid is a new job, so this job is deleted.
    pub fn apply_event(&mut self, event: Event<TrainingJob>) {
        let own = |job: &TrainingJob| job.metadata.uid == self.uid;
        match event {
            Event::Init => self.listed = None,
            Event::InitApply(job) => self.listed = Some(job).filter(own),
            // The job was deleted during an interruption if the new list does not contain it.
            Event::InitDone => self.job = self.listed.take(),
            Event::Apply(job) => self.job = Some(job).filter(own),
            Event::Delete(job) if own(&job) => self.job = None,
            Event::Delete(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(uid: &str, phase: &str) -> TrainingJob {
        serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "llm", "uid": uid},
            "spec": {"taskGroups": []}, "status": {"phase": phase},
        }))
        .unwrap()
    }

    #[test]
    fn job_deleted_between_watches_is_gone() {
        let mut watched = WatchedJob::from_job(job("u", "Running"));
        watched.apply_event(Event::Init);
        assert!(
            watched.current().is_some(),
            "an incomplete list must delete no job"
        );
        watched.apply_event(Event::InitDone);
        assert_eq!(watched.current(), None);
        for event in [Event::InitApply(job("v", "Queued")), Event::InitDone] {
            watched.apply_event(event);
        }
        assert_eq!(
            watched.current(),
            None,
            "a job with another uid is a new job"
        );
    }

    #[test]
    fn job_follows_the_last_event() {
        let mut watched = WatchedJob::from_job(job("u", "Running"));
        let events = [
            Event::Init,
            Event::InitApply(job("u", "Restarting")),
            Event::InitDone,
        ];
        events
            .into_iter()
            .for_each(|event| watched.apply_event(event));
        assert_eq!(watched.current(), Some(&job("u", "Restarting")));
        watched.apply_event(Event::Delete(job("old", "Failed")));
        assert!(watched.current().is_some());
        watched.apply_event(Event::Apply(job("v", "Queued")));
        assert_eq!(watched.current(), None);
    }
}
