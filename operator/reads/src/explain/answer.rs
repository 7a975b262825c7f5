//! The answer to "why does this wait", for the page. Pure.

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use trellis_api::Reason;

use super::{DisplayState, ExplainFacts, HelpSection, QueueTurn, Sentence, help_sections};

/// The answer to "why does this wait": the words of `trellis explain`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The state in one word, or in a few.
    pub word: String,
    /// Time since which the object has been pending, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The reason, from docs/reasons.md.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The reason in words. Empty: there is none.
    pub message: String,
    /// The position in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Sentence>,
    /// The expected start, or that it can never start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Sentence>,
    /// Changes that would help.
    pub sections: Vec<HelpSection>,
    /// Advice for the user. Empty: there is none.
    pub next_steps: String,
}

impl Answer {
    /// The answer of these facts. A pod that waits with its gang gets the answer of the gang.
    #[must_use]
    pub fn of(facts: &ExplainFacts, now: Timestamp) -> Self {
        let state = match facts.is_explained_by_gang() {
            true => facts.job_state.as_ref().map(DisplayState::from_row),
            false => None,
        };
        let state = state.unwrap_or_else(|| facts.own_state());
        let reason_text = match facts.is_explained_by_gang() {
            true => facts.gang_reason(),
            false => facts.current_reason(),
        };
        let (reason, message) = reason_text.unwrap_or_default();
        let turn = facts.explanation.as_ref().map(|e| QueueTurn::of(e, now));
        let (place, start) = match turn {
            None => (None, None),
            Some(QueueTurn::Never(never)) => (None, Some(never)),
            Some(QueueTurn::Waits { place, start }) => (Some(place), Some(start)),
        };
        Self {
            word: state.word,
            since: state.pending_since,
            reason,
            message,
            place,
            start,
            sections: facts
                .explanation
                .as_ref()
                .map(help_sections)
                .unwrap_or_default(),
            next_steps: facts.next_steps(),
        }
    }
}
