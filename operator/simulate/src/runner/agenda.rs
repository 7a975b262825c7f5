//! Scheduled events of the simulated jobs, by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trellis_scheduler::{GangId, PodKey, Time};

/// An event in a run of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RunEvent {
    /// The job has done its work.
    End,
    /// The job's pods have stopped after eviction.
    Stop,
    /// A surplus pod has stopped after eviction.
    StopSurplus(GangId),
    /// A failed pod of the gang is back.
    ReturnPod(PodKey),
    /// A failed surplus pod asks for a place again.
    RetrySurplus(GangId),
    /// The gang is tried again after its back-off.
    RetryGang,
    /// More surplus pods may join.
    GrowSurplus,
}

/// Something that happens to one run of a job: to another run of it, it does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DueEvent {
    pub(super) event: RunEvent,
    pub(super) job: GangId,
    pub(super) event_generation: u32,
}

/// All of it, the next first; at one time by kind and name.
#[derive(Debug, Default)]
pub(super) struct Agenda(BinaryHeap<Reverse<(Time, DueEvent)>>);

impl Agenda {
    pub(super) fn add(&mut self, at: Time, due: DueEvent) {
        self.0.push(Reverse((at, due)));
    }

    pub(super) fn next_time(&self) -> Option<Time> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes and returns the next event that is due by then.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<DueEvent> {
        if self.next_time()? > now {
            return None;
        }
        self.0.pop().map(|Reverse((_, due))| due)
    }
}
