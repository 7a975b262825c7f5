//! A queue's share: max over resources of usage / capacity, divided by weight.

use super::memory::Decayed;
use super::tree::{QueueIdx, Tree};

/// Usage of a queue in relation to its weight. The smaller share goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    /// The queue has weight 0: `ratio` is its dominant share, not divided.
    weightless: bool,
    /// In 2^-48.
    ratio: i128,
}

const RATIO_BITS: u32 = 48;
const PARTS_TO_RATIO: i128 = (1 << RATIO_BITS) / Decayed::PER_UNIT;

impl Share {
    /// The share as a number: 1 is all of some resource, for a queue of weight 1. Infinite for a
    /// queue of weight 0.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        if self.weightless {
            return f64::INFINITY;
        }
        self.ratio as f64 / (1_i128 << RATIO_BITS) as f64
    }
}

impl Tree {
    /// The share that orders a queue now: of decayed usage, as far ahead as [`super::decay::Decay`]
    /// says.
    pub(crate) fn share(&self, queue: QueueIdx) -> Share {
        let Some(node) = self.node(queue) else {
            return Share::default();
        };
        let dominant = node
            .memory
            .iter()
            .filter_map(|(resource, memory)| {
                let parts = memory
                    .ahead(&self.clock)
                    .as_parts()
                    .saturating_mul(PARTS_TO_RATIO);
                parts.checked_div(*self.capacity.get(resource)?)
            })
            .max()
            .unwrap_or(0);
        let weight = node
            .member
            .as_ref()
            .map_or(0, |m| m.weight.as_thousandths());
        let weighted = dominant
            .saturating_mul(1_000)
            .checked_div(i128::from(weight));
        Share {
            weightless: weighted.is_none(),
            ratio: weighted.unwrap_or(dominant),
        }
    }
}
