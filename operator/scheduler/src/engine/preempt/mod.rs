//! Preemption. `preemptor` has the preemptor and its claims, and `candidates` the gangs that may be
//! victims. `victim_search` chooses the victims with the data in `search_data`. For this,
//! `victim_selection` adds victims one after another in the order of `victim_order`, `node_order`
//! orders them by node, and `share_order` by the shares of queues. `victim_loss` compares sets of victims.
//! `domains` restricts the search for a gang that must be in one domain. `nomination` carries out
//! the choice. `protected_gangs` lists the gangs that may not be preempted yet.

mod candidates;
mod domains;
mod node_order;
mod nomination;
mod preemptor;
mod protected_gangs;
mod search_data;
mod share_order;
mod slice_order;
mod victim_loss;
mod victim_order;
mod victim_search;
mod victim_selection;

pub(super) use preemptor::PreemptionRight;

use super::flavor_assignment::FlavorAssignment;
use crate::decision::PreemptionReason;
use crate::placement::PodRuns;
use crate::state::GangIdx;

/// The victims of a preemption that is not carried out yet, and the placement that it makes
/// possible.
#[derive(Clone, Debug)]
pub(super) struct PreemptionPlan {
    pub(super) assignment: FlavorAssignment,
    pub(super) groups: Vec<PodRuns>,
    pub(super) victims: Vec<PlannedVictim>,
}

impl PreemptionPlan {
    /// True if all victims are surplus, or gangs of queues that owe what they hold.
    pub(super) fn takes_only_owed_quota(&self) -> bool {
        let is_owed = |leaver: &PlannedVictim| match leaver.reason {
            PreemptionReason::Borrows | PreemptionReason::Surplus | PreemptionReason::Drained => {
                true
            }
            PreemptionReason::LaterInQueue
            | PreemptionReason::LowerPriority
            | PreemptionReason::FairShare => false,
        };
        self.victims.iter().all(is_owed)
    }
}

/// A victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedVictim {
    pub(super) gang: GangIdx,
    pub(super) reason: PreemptionReason,
    pub(super) lost_device_seconds: u64,
}
