//! The decisions of a cycle so far.

use std::collections::BTreeSet;

use crate::decision::Decision;
use crate::ids::GangId;
use crate::queueing::OrderKey;
use crate::state::GangIdx;

/// The decisions of a cycle, and the gangs that it has tried without success, in order.
#[derive(Debug, Default)]
pub(in crate::engine) struct CycleLog {
    decisions: Vec<Decision>,
    tried: BTreeSet<(OrderKey, GangIdx)>,
}

impl CycleLog {
    /// Adds decisions, in the order in which the caller of the engine carries them out.
    pub(in crate::engine) fn extend(&mut self, decisions: impl IntoIterator<Item = Decision>) {
        self.decisions.extend(decisions);
    }

    /// Adds a gang that could not start. The cycle reports its reason at the end, if it is new.
    pub(in crate::engine) fn add_tried(&mut self, key: OrderKey, gang: GangIdx) {
        self.tried.insert((key, gang));
    }

    /// Drops the decision to place a gang, because its placement has been withdrawn.
    pub(in crate::engine) fn drop_place(&mut self, id: &GangId) {
        self.decisions
            .retain(|decision| !matches!(decision, Decision::Place { gang, .. } if gang == id));
    }

    /// Returns the gangs that were tried, in queue order.
    pub(in crate::engine) fn take_tried(&mut self) -> impl Iterator<Item = GangIdx> + use<> {
        std::mem::take(&mut self.tried)
            .into_iter()
            .map(|(_, at)| at)
    }

    pub(in crate::engine) fn into_decisions(self) -> Vec<Decision> {
        self.decisions
    }
}
