//! The position of a job in its queue, and its expected start. Pure.

use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_api::visibility::Explanation;

use super::Sentence;
use crate::text::format_until;

/// When the job has its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueTurn {
    /// The job can never start as it is.
    Never(Sentence),
    /// The job has a place in its queue.
    Waits {
        /// The position in the queue.
        place: Sentence,
        /// The expected start.
        start: Sentence,
    },
}

impl QueueTurn {
    /// Reads the turn from the explanation.
    #[must_use]
    pub fn of(explanation: &Explanation, now: Timestamp) -> Self {
        let queue = explanation.queue.as_str();
        if explanation.reason.is_some_and(Reason::requires_change) {
            let never = Sentence::plain("it can never start as it is: the job, queue ")
                .queue(queue)
                .text(" or the nodes must change");
            return Self::Never(never);
        }
        let place = match explanation.position {
            Some(position) => Sentence::plain(format!("number {position} of queue ")).queue(queue),
            None => Sentence::plain("in queue ")
                .queue(queue)
                .text(", waits for preempted jobs to stop"),
        };
        let start = describe_start(explanation, now);
        Self::Waits {
            place: place.text(format!(", priority {}", explanation.priority)),
            start: Sentence::plain(start),
        }
    }
}

/// Describes when the job is expected to start.
pub(crate) fn describe_start(explanation: &Explanation, now: Timestamp) -> String {
    match &explanation.expected_start {
        Some(time) => match format_until(time.0, now).as_str() {
            "now" => "expected to start now".to_owned(),
            span => format!("expected to start in {span} ({})", time.0),
        },
        None if explanation.reason == Some(Reason::Provisioning) => {
            "no expected start: the autoscaler does not say when the nodes are ready".to_owned()
        }
        None => "no expected start: the gangs that it waits for have no known end".to_owned(),
    }
}
