//! A queue's share: max over resources of usage / capacity, divided by weight.

use std::collections::BTreeMap;

use super::memory::DecayedAmount;
use crate::quota::amounts::{Demand, FlavorResource};
use crate::quota::tree::{QuotaTree, TreeNode};
use crate::state::{QueueIdx, ResourceIdx};

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
    /// Returns a dominant share, in 2^-48, divided by a weight in thousandths.
    pub(crate) fn weighted(dominant: i128, weight: u32) -> Self {
        let weighted = dominant
            .saturating_mul(1_000)
            .checked_div(i128::from(weight));
        Self {
            weightless: weighted.is_none(),
            ratio: weighted.unwrap_or(dominant),
        }
    }

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

/// Three decimal places, or `unweighted` for a queue of weight 0.
impl std::fmt::Display for FairShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.weightless {
            true => f.write_str("unweighted"),
            false => write!(f, "{:.3}", self.as_f64()),
        }
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
        FairShare::weighted(dominant, node.weight())
    }

    /// Returns the shares of two queues, each as if it held a demand more. The siblings below the
    /// lowest common parent compare what they borrow now: their usage beyond their quota, without
    /// memory. None: the queues have no common parent.
    pub(crate) fn compare_shares(
        &self,
        (one, demand): (QueueIdx, &Demand),
        (other, other_demand): (QueueIdx, &Demand),
    ) -> Option<(FairShare, FairShare)> {
        let common = self.lowest_above_both(one, other)?;
        let one = self.borrowed_share(one, demand, common)?;
        let other = self.borrowed_share(other, other_demand, common)?;
        Some((one, other))
    }

    /// Returns the share of `holder` if it is larger than the share that `asker` would have with a
    /// demand. The rule is `LessThanInitialShare` of Kueue's fair sharing (KEP-1714).
    pub(crate) fn larger_share(
        &self,
        asker: QueueIdx,
        demand: &Demand,
        holder: QueueIdx,
    ) -> Option<FairShare> {
        let shares = self.compare_shares((asker, demand), (holder, &Demand::default()));
        let (own, held) = shares?;
        (own < held).then_some(held)
    }

    /// Returns the borrowed shares of `holder` and of the queues above it, from the top down, starting
    /// below the lowest common parent with `asker`. None as for [`QuotaTree::larger_share`].
    pub(crate) fn larger_share_path(
        &self,
        asker: QueueIdx,
        demand: &Demand,
        holder: QueueIdx,
    ) -> Option<Vec<FairShare>> {
        let top = self.larger_share(asker, demand, holder)?;
        let child = self.child_of_common_parent(holder, asker)?;
        let below: Vec<QueueIdx> = self.path_below(holder, child).map(|(at, _)| at).collect();
        let lower = below.into_iter().rev();
        let lower = lower.filter_map(|queue| self.share_among_siblings(queue));
        Some(std::iter::once(top).chain(lower).collect())
    }

    /// Returns the child of the lowest common parent of two queues that is `queue` or above `queue`.
    /// None: they have no common parent.
    pub(crate) fn child_of_common_parent(
        &self,
        queue: QueueIdx,
        other: QueueIdx,
    ) -> Option<QueueIdx> {
        let common = self.lowest_above_both(queue, other)?;
        self.path_below(queue, common).map(|(at, _)| at).last()
    }

    /// Returns a queue and the queues above it, up to the one below `end`.
    fn path_below(
        &self,
        queue: QueueIdx,
        end: QueueIdx,
    ) -> impl Iterator<Item = (QueueIdx, &TreeNode)> {
        self.path(queue).take_while(move |(at, _)| *at != end)
    }

    /// Returns true if the usage of a queue counts in the share of `own` when it is compared with
    /// the share of `other`.
    pub(crate) fn is_on_side(&self, queue: QueueIdx, own: QueueIdx, other: QueueIdx) -> bool {
        let common = self.lowest_above_both(own, other);
        let path = self.path(own).map(|(at, _)| at);
        let mut side = path.take_while(|at| Some(*at) != common);
        side.any(|at| self.is_below(queue, at))
    }

    /// Returns the share of borrowed quota by which its siblings compare a queue. None: it has no
    /// parent.
    pub(crate) fn share_among_siblings(&self, queue: QueueIdx) -> Option<FairShare> {
        let parent = self.node(queue)?.parent?;
        self.borrowed_share(queue, &Demand::default(), parent)
    }

    /// Returns the share of borrowed quota of the child of `common` that is a queue or above it, as
    /// if the queue held `demand` more. None: `common` is not above the queue.
    fn borrowed_share(
        &self,
        queue: QueueIdx,
        demand: &Demand,
        common: QueueIdx,
    ) -> Option<FairShare> {
        let (level, (_, child)) = self.path_below(queue, common).enumerate().last()?;
        let new = demand.iter().map(|(what, _)| what);
        let new = new.filter(|what| !child.cells.contains_key(what));
        let mut sums: BTreeMap<ResourceIdx, i128> = BTreeMap::new();
        for what in child.cells.keys().copied().chain(new) {
            if what.resource == self.pods && !self.is_named(common, what) {
                continue;
            }
            let borrowed = match demand.amount(what) {
                0 => child.cell(what).borrowed(),
                need => self.excess_by_level(queue, what, need).nth(level)?.max(0),
            };
            let sum = sums.entry(what.resource).or_default();
            *sum = sum.saturating_add(borrowed);
        }
        let shares = sums.iter().filter_map(|(resource, borrowed)| {
            let parts = borrowed.saturating_mul(1 << RATIO_BITS);
            parts.checked_div(*self.capacity.get(resource)?)
        });
        Some(FairShare::weighted(
            shares.max().unwrap_or(0),
            child.weight(),
        ))
    }

    /// Returns true if a queue of the same tree names a quota of the resource.
    fn is_named(&self, queue: QueueIdx, what: FlavorResource) -> bool {
        let root = self.path(queue).last();
        root.is_some_and(|(_, root)| root.cell(what).is_named())
    }
}

impl TreeNode {
    /// Returns the weight in thousandths. 0 if the queue does not exist.
    fn weight(&self) -> u32 {
        let config = self.config.as_ref();
        config.map_or(0, |config| config.weight.as_thousandths())
    }
}
