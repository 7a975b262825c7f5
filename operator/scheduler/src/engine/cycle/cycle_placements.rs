//! The gangs that a cycle has placed, and the placements that it has withdrawn again.

use std::collections::{BTreeMap, BTreeSet};

use crate::explain::ReportedReason;
use crate::ids::{GangId, QueueName};
use crate::state::GangIdx;

/// Maximum number of withdrawals per cycle. After each of them, the cycle tries all gangs that it
/// wakes.
const MAX_WITHDRAWALS: usize = 256;

/// The gangs that a cycle has placed. Empty between cycles.
///
/// INVARIANT: each withdrawal is counted, and its decision is dropped once.
#[derive(Debug, Default)]
pub(in crate::engine) struct CyclePlacements {
    /// Placed gangs, with the reason to wait that was last reported.
    placed: BTreeMap<GangIdx, Option<ReportedReason>>,
    /// Gangs whose placement was withdrawn. Like preempted gangs, they preempt no gang while they
    /// borrow what they lack. Otherwise two gangs could replace each other without end.
    withdrawn: BTreeSet<GangIdx>,
    /// Gangs whose placement decisions must be dropped, and their queues, which hold less now.
    dropped: Vec<(GangId, QueueName)>,
    count: usize,
}

impl CyclePlacements {
    /// Records that the cycle places a gang. `reported` is the reason to wait that was last
    /// reported.
    pub(in crate::engine) fn insert(&mut self, gang: GangIdx, reported: Option<ReportedReason>) {
        self.placed.insert(gang, reported);
    }

    /// True if the cycle has placed the gang.
    pub(in crate::engine) fn contains(&self, gang: GangIdx) -> bool {
        self.placed.contains_key(&gang)
    }

    /// True if the cycle may withdraw another placement.
    pub(in crate::engine) fn may_withdraw(&self) -> bool {
        self.count < MAX_WITHDRAWALS
    }

    /// Withdraws the placement of a gang. Returns the reason to wait that was last reported. None:
    /// the cycle has not placed the gang.
    pub(in crate::engine) fn withdraw(
        &mut self,
        gang: GangIdx,
        id: GangId,
        queue: QueueName,
    ) -> Option<Option<ReportedReason>> {
        let reported = self.placed.remove(&gang)?;
        self.withdrawn.insert(gang);
        self.dropped.push((id, queue));
        self.count = self.count.saturating_add(1);
        Some(reported)
    }

    /// True if the cycle has withdrawn a placement of the gang.
    pub(in crate::engine) fn is_withdrawn(&self, gang: GangIdx) -> bool {
        self.withdrawn.contains(&gang)
    }

    /// Returns the gangs withdrawn since the last call, with their queues.
    pub(in crate::engine) fn take_withdrawn(&mut self) -> Vec<(GangId, QueueName)> {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::WaitReason;

    fn withdraw(cycle: &mut CyclePlacements, at: usize) -> Option<Option<ReportedReason>> {
        let id = GangId::new(format!("ns/{at}"));
        cycle.withdraw(GangIdx::of(at), id, QueueName::new("q"))
    }

    #[test]
    fn withdrawn_gang_is_dropped_once_and_stays_withdrawn() {
        let mut cycle = CyclePlacements::default();
        let gang = GangIdx::of(0);
        assert_eq!(withdraw(&mut cycle, 0), None, "it is not placed");
        let told = ReportedReason {
            reason: WaitReason::QuotaExceeded,
            obstacle: None,
        };
        cycle.insert(gang, Some(told));
        assert!(cycle.contains(gang));
        let reported = withdraw(&mut cycle, 0);
        assert_eq!(reported, Some(Some(told)));
        assert!(!cycle.contains(gang) && cycle.is_withdrawn(gang));
        assert_eq!(cycle.take_withdrawn().len(), 1);
        assert!(cycle.take_withdrawn().is_empty() && cycle.is_withdrawn(gang));
    }

    #[test]
    fn withdrawals_of_a_cycle_are_bounded() {
        let mut cycle = CyclePlacements::default();
        for at in 0..MAX_WITHDRAWALS {
            assert!(cycle.may_withdraw());
            cycle.insert(GangIdx::of(at), None);
            withdraw(&mut cycle, at);
        }
        assert!(!cycle.may_withdraw());
    }
}
