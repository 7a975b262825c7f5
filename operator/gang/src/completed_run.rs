//! A completed run, from which the scheduler predicts how long later runs take.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::{JobPhase, TrainingJobStatus};

use crate::key::Key;

/// How long a complete job held its place in its last attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedRun {
    /// The job.
    pub job: Key,
    /// Uid of the job.
    pub uid: String,
    /// Queue of the job.
    pub queue: String,
    /// From the placement to the completion.
    pub run_time: Duration,
    /// When the job was complete.
    pub completed: Timestamp,
}

impl CompletedRun {
    /// Returns the run. None unless the job is complete, because a failed run says nothing about a
    /// successful one. None for a job with stages, because its last attempt says nothing about its
    /// first stage.
    #[must_use]
    pub fn from_status(job: &Key, uid: &str, status: &TrainingJobStatus) -> Option<Self> {
        if status.phase != Some(JobPhase::Complete) || status.stage.is_some() {
            return None;
        }
        let placed = status.scheduled_time.as_ref()?.0;
        let completed = status.completion_time.as_ref()?.0;
        Some(Self {
            job: job.clone(),
            uid: uid.to_owned(),
            queue: status.queue.clone()?,
            // The difference may be negative if the clocks of two leaders differ.
            run_time: Duration::try_from(completed.duration_since(placed)).ok()?,
            completed,
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use trellis_api::job::JobStage;

    use super::*;

    fn time(hour: i64) -> Option<Time> {
        Some(Time(
            Timestamp::from_second(hour.saturating_mul(3600)).unwrap(),
        ))
    }

    #[test]
    fn complete_job_yields_the_run_time_of_its_last_attempt() {
        let run_time = |change: fn(&mut TrainingJobStatus)| {
            let mut status = TrainingJobStatus {
                phase: Some(JobPhase::Complete),
                queue: Some("default".to_owned()),
                queued_time: time(0),
                scheduled_time: time(1),
                completion_time: time(3),
                ..TrainingJobStatus::default()
            };
            change(&mut status);
            let job = Key::new("team-a", "llm");
            CompletedRun::from_status(&job, "uid", &status).map(|run| run.run_time)
        };
        assert_eq!(run_time(|_| ()), Some(Duration::from_hours(2)));
        assert_eq!(run_time(|s| s.phase = Some(JobPhase::Failed)), None);
        assert_eq!(run_time(|s| s.queue = None), None);
        assert_eq!(run_time(|s| s.stage = Some(JobStage::default())), None);
        assert_eq!(run_time(|s| s.scheduled_time = None), None);
        // The clocks of two leaders differ.
        assert_eq!(run_time(|s| s.scheduled_time = time(4)), None);
    }
}
