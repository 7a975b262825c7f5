//! Gangs leave to make room for another one. `asker` is the gang that wants room and what
//! it may ask for, `candidates` the gangs that may be asked (`card` is what is read of
//! each), `search` the choice of those that leave, over a `field`: `asking` asks them one
//! after the other, `by_node` gives an order of asking, `domains` the parts of the field
//! where a gang must be in one domain. `nominate` carries the choice out, and `protected`
//! names the gangs that may not be asked yet.

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

/// Who leaves, and what place a gang then has. Nothing of it has been done.
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

/// A gang that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaver {
    pub(super) gang: GangIdx,
    pub(super) because: Because,
    pub(super) lost_device_seconds: u64,
}
