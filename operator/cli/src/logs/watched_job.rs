//! A job as a watch tells of it. Pure.

use kube::runtime::watcher::Event;
use trellis_api::TrainingJob;

/// The job that is followed, which may go, also while nobody watches.
#[derive(Debug)]
pub struct WatchedJob {
    uid: Option<String>,
    /// None: it is gone.
    job: Option<TrainingJob>,
    /// What a list has shown of it so far.
    listed: Option<TrainingJob>,
}

impl WatchedJob {
    /// One that is there.
    pub fn from_job(job: TrainingJob) -> Self {
        Self {
            uid: job.metadata.uid.clone(),
            job: Some(job),
            listed: None,
        }
    }

    /// The job as it was last seen. None: it is gone.
    pub const fn current(&self) -> Option<&TrainingJob> {
        self.job.as_ref()
    }

    /// Takes what a watch of its name tells. One of another uid has come in its place.
    pub fn apply_event(&mut self, event: Event<TrainingJob>) {
        let own = |job: &TrainingJob| job.metadata.uid == self.uid;
        match event {
            Event::Init => self.listed = None,
            Event::InitApply(job) => self.listed = Some(job).filter(own),
            // What a list does not show went while nobody watched.
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
        assert!(watched.current().is_some(), "until all are listed");
        watched.apply_event(Event::InitDone);
        assert_eq!(watched.current(), None);
        for event in [Event::InitApply(job("v", "Queued")), Event::InitDone] {
            watched.apply_event(event);
        }
        assert_eq!(
            watched.current(),
            None,
            "another of its name is none of ours"
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
