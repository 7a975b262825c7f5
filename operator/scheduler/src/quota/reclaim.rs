//! Finds the queues on the path to the root from which a queue may reclaim quota.
//!
//! The rules are Kueue's for `reclaimWithinCohort`
//! (`pkg/scheduler/preemption/classical/hierarchical_preemption.go`). The candidates at each queue
//! on the path hold more than their quota, and so does each queue between. Subtract from the demand
//! the part that local quota covers. If the rest is within the quota of a queue on the path, the
//! candidates further up owe it. The policies of the queues decide which of their gangs may be
//! victims. They also decide if a queue that would borrow too may reclaim borrowed amounts.

use super::amounts::{Demand, FlavorResource};
use super::availability::ResourceOffer;
use super::tree::QuotaTree;
use super::tree::quota_arithmetic::QuotaCell;
use crate::state::QueueIdx;

impl QuotaTree {
    /// Returns the queues above a queue that owe it a demand: the demand is within the quota of a
    /// lower queue on the path.
    pub(super) fn owing_queues(&self, queue: QueueIdx, demand: &Demand) -> Vec<QueueIdx> {
        let mut rest: Vec<(FlavorResource, i128)> = demand
            .iter()
            .filter(|(what, _)| self.offer(queue, *what) == ResourceOffer::Quota)
            .collect();
        let mut owing = Vec::new();
        let mut owed = false;
        for (at, node) in self.path(queue) {
            if owed {
                owing.push(at);
            }
            owed = owed
                || rest.iter().all(|(what, need)| {
                    let cell = node.cell(*what);
                    cell.usage().saturating_add(*need) <= cell.subtree()
                });
            for (what, need) in &mut rest {
                let cell = node.cell(*what);
                *need = cell.beyond_local(*need, cell.usage());
            }
        }
        owing
    }

    /// Returns true if another queue owes a queue with this demand the amounts that it holds beyond
    /// its quota. Current usage of the other queue does not count.
    pub(crate) fn is_owed(&self, queue: QueueIdx, demand: &Demand, holder: QueueIdx) -> bool {
        match self.lowest_above_both(queue, holder) {
            Some(common) => self.owing_queues(queue, demand).contains(&common),
            None => !self.borrows(queue, demand),
        }
    }

    /// Returns the queues on the path that could provide the quota that a queue lacks for `need`
    /// more. Each comes with the queue below it on the path.
    pub(super) fn quota_sources(
        &self,
        queue: QueueIdx,
        what: FlavorResource,
        need: i128,
    ) -> Vec<(Option<QueueIdx>, QueueIdx, &QuotaCell)> {
        // The queues above the highest exceeded limit have enough quota.
        let highest = self
            .climb(queue, what, need, QuotaCell::usage)
            .enumerate()
            .filter(|(_, step)| step.missing > 0)
            .last();
        let count = highest.map_or(0, |(level, _)| level.saturating_add(1));
        let mut below = None;
        let path = self.path(queue).take(count);
        path.map(|(at, node)| (below.replace(at), at, node.cell(what)))
            .collect()
    }
}
