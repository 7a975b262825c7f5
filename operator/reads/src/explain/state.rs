//! The state of an object, in one word. Pure.

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::visibility::JobState;

use super::ExplainedObject;

/// The state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisplayState {
    /// One word, or a few. Empty: unknown.
    pub word: String,
    /// The phase, if the word is one.
    pub phase: Option<JobPhase>,
    /// Time since which the object has been pending, if it is.
    pub pending_since: Option<Timestamp>,
}

impl DisplayState {
    /// Takes the state from the row of `trellis queue`.
    #[must_use]
    pub fn from_row(row: &JobState) -> Self {
        let since = row.position.map(|_| row.since.0);
        let phase = row.phase.unwrap_or(JobPhase::Queued);
        Self {
            pending_since: since,
            ..Self::from_phase(phase)
        }
    }

    /// The state of an object in this phase.
    #[must_use]
    pub fn from_phase(phase: JobPhase) -> Self {
        Self {
            word: phase.as_str().to_owned(),
            phase: Some(phase),
            pending_since: None,
        }
    }

    /// A state that is no phase.
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        Self {
            word: word.to_owned(),
            phase: None,
            pending_since: None,
        }
    }

    /// The state of the object. `row` must be the row of this object.
    #[must_use]
    pub fn from_object(subject: &ExplainedObject, row: Option<&JobState>) -> Self {
        if let Some(row) = row {
            return Self::from_row(row);
        }
        match subject {
            ExplainedObject::Job(job) => Self::from_status(job.status.as_ref()),
            ExplainedObject::PodGroup(group) => {
                let status = group.status.as_ref();
                let phase = status.and_then(|status| status.phase).unwrap_or_default();
                match phase {
                    // The engine does not know a gang that lacks members or refers to a missing
                    // object.
                    PodGroupPhase::Pending if subject.stored_reason().is_some() => {
                        Self::from_phase(JobPhase::Waiting)
                    }
                    PodGroupPhase::Pending | PodGroupPhase::Finished => {
                        Self::from_word("not placed")
                    }
                    PodGroupPhase::Provisioning => Self::from_word("waits for new nodes"),
                    PodGroupPhase::Nominated => Self::from_word("waits for preempted jobs to stop"),
                    PodGroupPhase::Committing | PodGroupPhase::Placed => Self::from_word("placed"),
                    PodGroupPhase::Unwinding => Self::from_word("releases its nodes"),
                }
            }
            ExplainedObject::Pod(_) if subject.stored_reason().is_some() => {
                Self::from_phase(JobPhase::Waiting)
            }
            ExplainedObject::Pod(pod) => {
                let status = pod.status.as_ref();
                let phase = status.and_then(|status| status.phase.as_deref());
                Self::from_word(phase.unwrap_or("Pending"))
            }
        }
    }

    fn from_status(status: Option<&TrainingJobStatus>) -> Self {
        let Some(phase) = status.and_then(|status| status.phase) else {
            return Self::from_word("not processed yet");
        };
        let is_waiting = matches!(
            phase,
            JobPhase::Queued | JobPhase::Waiting | JobPhase::Restarting
        );
        let since = status.and_then(TrainingJobStatus::pending_since);
        Self {
            pending_since: since.filter(|_| is_waiting),
            ..Self::from_phase(phase)
        }
    }
}
