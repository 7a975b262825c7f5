//! What will happen by itself, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trellis_scheduler::{GangId, PodKey, Time};

/// What happens to a run of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// It has done its work.
    End,
    /// Its pods have stopped after they were told to.
    Stop,
    /// A surplus pod has stopped after it was told to.
    StopSurplus(GangId),
    /// A pod of the gang that failed is back.
    Return(PodKey),
    /// A surplus pod that failed seeks a place again.
    SeekAgain(GangId),
    /// The gang is tried again after its back-off.
    Retry,
    /// More surplus pods may join.
    Grow,
}

/// Something that happens to one run of a job: to another run of it, it does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub(super) what: What,
    pub(super) job: GangId,
    pub(super) run: u32,
}

/// All of it, the next first; at one time by kind and name.
#[derive(Debug, Default)]
pub(super) struct Agenda(BinaryHeap<Reverse<(Time, Due)>>);

impl Agenda {
    pub(super) fn add(&mut self, at: Time, due: Due) {
        self.0.push(Reverse((at, due)));
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// What is due by then.
    pub(super) fn pop(&mut self, now: Time) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse((_, due))| due)
    }
}
