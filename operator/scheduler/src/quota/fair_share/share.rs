//! A queue's share: max over resources of usage / capacity, divided by weight.

use super::memory::DecayedAmount;
use crate::quota::tree::QuotaTree;
use crate::state::QueueIdx;

/// The usage of a queue divided by its weight. The queue with the smaller share goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FairShare {
    /// True if the queue has weight 0: `ratio` is its dominant share, not divided by a weight.
    weightless: bool,
    /// In 2^-48.
    ratio: i128,
}

const RATIO_BITS: u32 = 48;
const PARTS_TO_RATIO: i128 = (1 << RATIO_BITS) / DecayedAmount::PER_UNIT;

impl FairShare {
    /// Returns the share as a number: 1 is all of some resource, for a queue of weight 1. Infinite
    /// for a queue of weight 0.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        if self.weightless {
            return f64::INFINITY;
        }
        self.ratio as f64 / (1_i128 << RATIO_BITS) as f64
    }
}

impl QuotaTree {
    /// Returns the share that orders a queue now. It uses the decayed usage at the lookahead time
    /// of [`super::decay::UsageDecay`].
    pub(crate) fn share(&self, queue: QueueIdx) -> FairShare {
        let Some(node) = self.node(queue) else {
            return FairShare::default();
        };
        let dominant = node
            .memory
            .iter()
            .filter_map(|(resource, memory)| {
                let parts = memory
                    .order_usage(&self.clock)
                    .as_parts()
                    .saturating_mul(PARTS_TO_RATIO);
                parts.checked_div(*self.capacity.get(resource)?)
            })
            .max()
            .unwrap_or(0);
        let weight = node
            .config
            .as_ref()
            .map_or(0, |m| m.weight.as_thousandths());
        let weighted = dominant
            .saturating_mul(1_000)
            .checked_div(i128::from(weight));
        FairShare {
            weightless: weighted.is_none(),
            ratio: weighted.unwrap_or(dominant),
        }
    }
}
