//! Preemption. `asker` is the preemptor and its claims, `candidates` the gangs that may be victims
//! (`card` has the facts about each). `search` chooses the victims with the data in `field`:
//! `asking` adds victims one after another, `by_node` gives an order for that, and `domains`
//! restricts the search for a gang that must be in one domain. `nominate` carries the choice out,
//! and `protected` lists the gangs that may not be preempted yet.

mod asker;
mod asking;
mod by_node;
mod candidates;
mod card;
mod domains;
mod field;
mod nominate;
mod protected;
mod search;

pub(super) use asker::Right;
pub(super) use card::Card;

use super::ways::Way;
use crate::decision::Because;
use crate::placement::Runs;
use crate::state::GangIdx;

/// Victims of a preemption, and the placement that they make possible. Not carried out yet.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) way: Way,
    pub(super) groups: Vec<Runs>,
    pub(super) victims: Vec<Leaver>,
}

impl Plan {
    /// True if only surplus leaves, and gangs of queues that owe what they hold.
    pub(super) fn takes_only_what_is_owed(&self) -> bool {
        let is_owed = |leaver: &Leaver| match leaver.because {
            Because::Borrows | Because::Surplus | Because::Drained => true,
            Because::LaterInQueue | Because::LowerPriority => false,
        };
        self.victims.iter().all(is_owed)
    }
}

/// A victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaver {
    pub(super) gang: GangIdx,
    pub(super) because: Because,
    pub(super) lost_device_seconds: u64,
}
