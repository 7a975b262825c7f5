//! The order in which candidates become victims.

use super::search_data::{EvictionNodes, VictimSearch};

impl VictimSearch<'_> {
    /// Returns the candidates in preemption order: by rank, then by lost work.
    pub(super) fn order_by_loss(&self) -> Vec<usize> {
        (0..self.candidates.list.len()).collect()
    }

    /// Returns the candidates by rank, then by lost work divided by the missing amounts that they
    /// free.
    pub(super) fn order_by_loss_per_room(&self, ground: &EvictionNodes) -> Vec<usize> {
        let missing = ground.rooms.missing_amounts();
        let price = |number: usize| {
            let candidate = self.candidates.list.get(number)?;
            let freed = (0_usize..)
                .zip(&missing)
                .filter(|(_, missing)| **missing > 0);
            // In thousandths of the missing amount.
            let freed = freed.filter_map(|(column, missing)| {
                let freed = i128::from(self.max_freed(number, column)).min(*missing);
                freed.saturating_mul(1_000).checked_div(*missing)
            });
            let freed = freed.max().unwrap_or(1_000).max(1);
            let lost = i128::from(candidate.lost_device_seconds).saturating_mul(1_000);
            Some((candidate.rank(), lost.checked_div(freed)))
        };
        let mut order = self.order_by_loss();
        // The sort is stable: of equal candidates, the one with the least loss comes first.
        order.sort_by_cached_key(|number| price(*number));
        order
    }
}
