//! Scheduled events of the simulated jobs, by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trellis_scheduler::{GangId, PodKey, Time};

/// A scheduled event of a job's run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RunEvent {
    /// The job has done its work.
    End,
    /// The job's pods have stopped after eviction.
    Stop,
    /// A surplus pod has stopped after eviction.
    StopSurplus(GangId),
    /// A failed pod of the gang runs again.
    ReturnPod(PodKey),
    /// A failed surplus pod is submitted again.
    RetrySurplus(GangId),
    /// The gang is submitted again after its back-off.
    RetryGang,
    /// More surplus pods may join.
    GrowSurplus,
}

/// An event of one run of a job. Later runs of the job ignore it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DueEvent {
    pub(super) event: RunEvent,
    pub(super) job: GangId,
    pub(super) event_generation: u32,
}

/// The scheduled events, the earliest first. Events with the same time are ordered by kind and
/// name.
#[derive(Debug, Default)]
pub(super) struct Agenda(BinaryHeap<Reverse<(Time, DueEvent)>>);

impl Agenda {
    pub(super) fn add(&mut self, at: Time, due: DueEvent) {
        self.0.push(Reverse((at, due)));
    }

    pub(super) fn next_time(&self) -> Option<Time> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes and returns the next event that is due at `now`.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<DueEvent> {
        if self.next_time()? > now {
            return None;
        }
        self.0.pop().map(|Reverse((_, due))| due)
    }
}
