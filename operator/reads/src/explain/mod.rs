//! Why a job or external pods wait.

mod answer;
mod help;
mod read;
mod sentence;
mod state;
mod subject;
mod turn;

pub use answer::Answer;
pub(crate) use help::describe_hidden_jobs;
pub use help::{HelpKind, HelpSection, help_sections, join_amounts};
pub use read::read_facts;
pub use sentence::{NamedObject, Sentence, Span};
pub use state::DisplayState;
pub use subject::ExplainedObject;
pub use turn::QueueTurn;
pub(crate) use turn::describe_start;

use serde::Serialize;
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_api::visibility::{Explanation, GangName, JobState, QueueState};

use crate::events::EventLine;
use crate::remedy;

/// A reason and its message.
pub type ReasonText = (Option<Reason>, String);

/// All facts about why an object waits.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainFacts {
    /// The object to explain.
    #[serde(flatten)]
    pub subject: ExplainedObject,
    /// The row of `trellis queue`.
    /// Only for external pods: a job's own status has the same facts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_state: Option<JobState>,
    /// The gang of the row and the explanation.
    /// It is the gang of the pod alone, or the gang that the pod belongs to.
    #[serde(skip)]
    pub gang_name: Option<GangName>,
    /// The explanation of the engine.
    /// None: the engine has none for this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// The state of its queue. None: the user may not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueState>,
    /// The events of the object, the newest last.
    pub events: Vec<EventLine>,
    /// Facts that are missing from the output, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl ExplainFacts {
    /// Returns true for a pod that the engine knows only as part of its gang.
    /// The explanation of the gang applies then.
    #[must_use]
    pub fn is_explained_by_gang(&self) -> bool {
        self.gang_name
            .as_ref()
            .is_some_and(|gang| *gang != self.subject.gang_name())
    }

    /// Returns true for a pod that gets its node when its gang is placed.
    #[must_use]
    pub fn waits_with_gang(&self) -> bool {
        let row = self.job_state.as_ref();
        let row = row.map(|row| row.phase == Some(JobPhase::Queued));
        let is_waiting = row.unwrap_or(self.explanation.is_some());
        self.is_explained_by_gang() && is_waiting && self.subject.is_pending()
    }

    /// The state of the object itself.
    #[must_use]
    pub fn own_state(&self) -> DisplayState {
        if self.waits_with_gang() {
            return DisplayState::from_phase(JobPhase::Queued);
        }
        let row = self.job_state.as_ref();
        DisplayState::from_object(&self.subject, row.filter(|_| !self.is_explained_by_gang()))
    }

    /// Returns the reason of this object.
    /// The engine's current reason wins over the stored one.
    #[must_use]
    pub fn current_reason(&self) -> Option<ReasonText> {
        if self.is_explained_by_gang() {
            // If the pod waits with its gang, its stored reason is an older version of the gang's
            // reason.
            return self
                .subject
                .stored_reason()
                .filter(|_| !self.waits_with_gang());
        }
        if self.explanation.is_some() {
            return self.gang_reason();
        }
        // The stored reason of a gang that holds its nodes is out of date.
        let row = self.job_state.as_ref();
        let holds = row.is_some_and(|row| row.phase != Some(JobPhase::Queued));
        self.subject.stored_reason().filter(|_| !holds)
    }

    /// Returns the engine's current reason.
    #[must_use]
    pub fn gang_reason(&self) -> Option<ReasonText> {
        let explanation = self.explanation.as_ref();
        explanation.map(|explanation| (explanation.reason, explanation.message.clone()))
    }

    /// Advice for the user. Empty: there is none.
    #[must_use]
    pub fn next_steps(&self) -> String {
        let reason_text = match self.waits_with_gang() {
            true => self.gang_reason(),
            false => self.current_reason(),
        };
        remedy(
            self.subject.job_status(),
            reason_text.and_then(|(reason, _)| reason),
        )
    }
}
