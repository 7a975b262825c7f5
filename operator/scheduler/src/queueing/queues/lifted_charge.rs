//! Charges that the engine removes for a short time. The memory of past usage stays unchanged.

use super::Queues;
use super::holders::QueueHolder;
use crate::ids::QueueName;
use crate::quota::FlavorResource;
use crate::state::GangIdx;

/// A removed charge. The caller must put it back.
#[derive(Debug)]
#[must_use]
pub(crate) struct LiftedCharge {
    queue: QueueName,
    holder: QueueHolder,
}

impl Queues {
    /// Removes the charge of a gang of a queue for a short time. None: the gang has no charge.
    pub(crate) fn lift_charge(&mut self, queue: &QueueName, gang: GangIdx) -> Option<LiftedCharge> {
        let holders = self.holders.get_mut(queue)?;
        let holder = holders.remove(gang)?;
        if holders.len() == 0 {
            self.holders.remove(queue);
        }
        let aside = LiftedCharge {
            queue: queue.clone(),
            holder,
        };
        self.count_lifted(&aside, -1);
        Some(aside)
    }

    /// Puts a removed charge back.
    pub(crate) fn put_back_charge(&mut self, aside: LiftedCharge) {
        self.count_lifted(&aside, 1);
        let holders = self.holders.entry(aside.queue).or_default();
        holders.insert(aside.holder);
    }

    fn count_lifted(&mut self, aside: &LiftedCharge, times: i128) {
        let Some(demand) = self.charges.get(aside.holder.charge).cloned() else {
            return;
        };
        for (counts, sums) in [
            (aside.holder.non_preemptible, &mut self.non_preemptible),
            (aside.holder.surplus, &mut self.surplus),
        ] {
            match times {
                _ if !counts => {}
                -1 => sums.remove(&aside.queue, &demand),
                _ => sums.add(&aside.queue, &demand),
            }
        }
        if let Some(at) = self.tree.find(&aside.queue) {
            let amounts = demand.iter();
            let amounts: Vec<(FlavorResource, i128)> = amounts
                .map(|(what, amount)| (what, amount.saturating_mul(times)))
                .collect();
            self.tree.shift(at, &amounts);
        }
    }
}
