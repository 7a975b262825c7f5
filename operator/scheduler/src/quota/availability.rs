//! Computes how much more a queue may get.

use smallvec::SmallVec;

use super::amounts::{Demand, FlavorResource};
use super::tree::queue_fault::MAX_DEPTH;
use super::tree::quota_arithmetic::{EMPTY_CELL, QuotaCell};
use super::tree::{QuotaTree, TreeNode};
use crate::state::QueueIdx;

/// How a queue offers a resource of a flavor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceOffer {
    /// The queue does not offer the resource, or offers nothing at all.
    Nothing,
    /// The queue offers as much as quota allows.
    Quota,
    /// The queue offers the resource without a limit.
    NoLimit,
}

impl TreeNode {
    pub(super) fn cell(&self, what: FlavorResource) -> &QuotaCell {
        self.cells.get(&what).unwrap_or(&EMPTY_CELL)
    }
}

impl QuotaTree {
    pub(super) fn offer(&self, queue: QueueIdx, what: FlavorResource) -> ResourceOffer {
        let Some(node) = self.node(queue).filter(|n| n.is_counted()) else {
            return ResourceOffer::Nothing;
        };
        let unnamed = if what.resource == self.pods {
            ResourceOffer::NoLimit
        } else {
            ResourceOffer::Nothing
        };
        if node.has_quotas {
            let named = node.cell(what).quota.is_some();
            return if named { ResourceOffer::Quota } else { unnamed };
        }
        match self.path(queue).last() {
            Some((_, root)) if root.queues_with_quotas == 0 => ResourceOffer::NoLimit,
            Some((_, root)) if root.cell(what).is_named() => ResourceOffer::Quota,
            _ => unnamed,
        }
    }

    /// Returns all resources that any queue in the tree of this queue names. A queue that names no
    /// resource itself may get these.
    pub(crate) fn named_resources(&self, queue: QueueIdx) -> Vec<FlavorResource> {
        let counts = self.node(queue).is_some_and(TreeNode::is_counted);
        let root = self.path(queue).last().filter(|_| counts);
        let cells = root.into_iter().flat_map(|(_, root)| &root.cells);
        cells
            .filter(|(_, cell)| cell.is_named())
            .map(|(what, _)| *what)
            .collect()
    }

    /// Returns all resources of which the queues of a queue's tree have quota or usage.
    pub(crate) fn resources_in_use(&self, queue: QueueIdx) -> impl Iterator<Item = FlavorResource> {
        let root = self.path(queue).last();
        root.into_iter()
            .flat_map(|(_, root)| root.cells.keys().copied())
    }

    /// Returns true if a queue offers a resource of a flavor. A misconfigured queue offers nothing.
    pub(crate) fn offers(&self, queue: QueueIdx, what: FlavorResource) -> bool {
        self.offer(queue, what) != ResourceOffer::Nothing
    }

    /// Returns how much more a queue may get now, in base units. None: it has no limit. 0: the
    /// queue does not offer the resource, or no quota is left. Negative: gangs hold more than the
    /// quota, because an administrator lowered it.
    pub(crate) fn available(&self, queue: QueueIdx, what: FlavorResource) -> Option<i128> {
        self.compute_available(queue, what, QuotaCell::usage)
    }

    pub(super) fn compute_available(
        &self,
        queue: QueueIdx,
        what: FlavorResource,
        usage: impl Fn(&QuotaCell) -> i128,
    ) -> Option<i128> {
        match self.offer(queue, what) {
            ResourceOffer::Nothing => return Some(0),
            ResourceOffer::NoLimit => return None,
            ResourceOffer::Quota => {}
        }
        let path: SmallVec<[&QuotaCell; MAX_DEPTH]> =
            self.path(queue).map(|(_, node)| node.cell(what)).collect();
        path.iter().rev().fold(None, |parent, cell| {
            Some(cell.available(usage(cell), parent))
        })
    }

    /// Returns true if a queue may get all of a demand now.
    pub(crate) fn fits(&self, queue: QueueIdx, demand: &Demand) -> bool {
        demand
            .iter()
            .all(|(what, need)| match self.offer(queue, what) {
                ResourceOffer::Nothing => false,
                ResourceOffer::NoLimit => true,
                ResourceOffer::Quota => self
                    .climb(queue, what, need, QuotaCell::usage)
                    .all(|s| s.missing == 0),
            })
    }

    /// Returns true if a queue would exceed its quota with a demand; for a leaf, its nominal quota.
    pub(crate) fn borrows(&self, queue: QueueIdx, demand: &Demand) -> bool {
        demand.iter().any(|(what, need)| {
            let cell = self.node(queue).map_or(&EMPTY_CELL, |n| n.cell(what));
            self.offer(queue, what) == ResourceOffer::Quota
                && cell.usage().saturating_add(need) > cell.subtree()
        })
    }

    /// Returns the lowest queue, from this one up, whose quota covers the usage plus the whole
    /// demand after the gangs of this queue have given back `given_back`. None: no quota covers it,
    /// or a resource of the demand has no limit.
    pub(crate) fn lowest_within(
        &self,
        queue: QueueIdx,
        demand: &Demand,
        given_back: &Demand,
    ) -> Option<QueueIdx> {
        let mut levels = demand.iter().map(|(what, need)| {
            let need = need.saturating_sub(given_back.amount(what));
            match self.offer(queue, what) {
                ResourceOffer::NoLimit if what.resource == self.pods => return Some(0),
                ResourceOffer::NoLimit | ResourceOffer::Nothing => return None,
                ResourceOffer::Quota => {}
            }
            let mut beyond = self.excess_by_level(queue, what, need);
            beyond.position(|beyond| beyond <= 0)
        });
        let level = levels.try_fold(0, |most, level| Some(level?.max(most)))?;
        self.path(queue).nth(level).map(|(at, _)| at)
    }

    /// Returns the lowest queue, from this one up but below the root, whose quota covers the demand
    /// alone. Current usage does not count.
    pub(crate) fn lowest_with_nominal(&self, queue: QueueIdx, demand: &Demand) -> Option<QueueIdx> {
        let covers = |node: &TreeNode| {
            let mut quotas = demand
                .iter()
                .filter(|(what, _)| self.offer(queue, *what) == ResourceOffer::Quota);
            quotas.all(|(what, need)| need <= node.cell(what).subtree())
        };
        let mut path = self.path_below_root(queue);
        path.find(|(_, node)| covers(node)).map(|(at, _)| at)
    }

    /// Returns true if a queue with a demand exceeds the quota of all queues above it that are not
    /// above `owner` too.
    fn borrows_from(&self, queue: QueueIdx, demand: &Demand, owner: QueueIdx) -> bool {
        let mut above = self.path(owner).map(|(at, _)| at);
        match self.lowest_within(queue, demand, &Demand::default()) {
            Some(within) => above.any(|at| at == within),
            None => true,
        }
    }

    /// Returns a queue and the queues above it, without the root unless it is the queue itself.
    fn path_below_root(&self, queue: QueueIdx) -> impl Iterator<Item = (QueueIdx, &TreeNode)> {
        let path = self.path(queue);
        path.filter(move |(at, node)| *at == queue || node.parent.is_some())
    }

    /// Returns the part of a queue's demand that it would borrow from what `owner`, or a queue above
    /// it below the root, does not use.
    pub(crate) fn borrowed_from(
        &self,
        queue: QueueIdx,
        demand: &Demand,
        owner: QueueIdx,
    ) -> Demand {
        let owners = self.path_below_root(owner).map(|(at, _)| at);
        let owners: Vec<QueueIdx> = owners.filter(|at| !self.is_below(queue, *at)).collect();
        let is_borrowed = |(what, need): &(FlavorResource, i128)| {
            let alone = Demand::single(*what, *need);
            let lends = |at: &QueueIdx| {
                self.has_unused_quota(*at, *what) && self.borrows_from(queue, &alone, *at)
            };
            owners.iter().any(lends)
        };
        demand.iter().filter(is_borrowed).collect()
    }

    /// Returns true if a queue, with those below it, holds less than its quota. Only then can another
    /// queue borrow from it.
    fn has_unused_quota(&self, queue: QueueIdx, what: FlavorResource) -> bool {
        let cell = self.node(queue).map(|node| node.cell(what));
        cell.is_some_and(|cell| cell.usage() < cell.subtree())
    }

    /// Returns true if a queue is `above` or below it.
    pub(crate) fn is_below(&self, queue: QueueIdx, above: QueueIdx) -> bool {
        self.path(queue).any(|(at, _)| at == above)
    }

    /// Returns the queues that must provide part of `need`, from `queue` up. Local quota on the
    /// path covers part of it. The path ends when local quota covers the rest, or at the root.
    ///
    /// If `need` is more than 0: `missing` is 0 in all steps exactly if `need` is at most the
    /// available amount. This is the formula of the module, solved for `need`.
    pub(super) fn climb(
        &self,
        queue: QueueIdx,
        what: FlavorResource,
        need: i128,
        usage: impl Fn(&QuotaCell) -> i128,
    ) -> impl Iterator<Item = ClimbStep<'_>> {
        self.path(queue).scan(need, move |need, (_, node)| {
            if *need <= 0 {
                return None;
            }
            let cell = node.cell(what);
            let used = usage(cell);
            let step = ClimbStep {
                node,
                used,
                missing: cell.missing(*need, used, node.parent.is_none()),
            };
            *need = cell.beyond_local(*need, used);
            Some(step)
        })
    }
}

/// A queue on the path of a demand to the root.
#[derive(Debug)]
pub(super) struct ClimbStep<'a> {
    pub(super) node: &'a TreeNode,
    pub(super) used: i128,
    /// The part of the remaining demand that exceeds this queue's limit.
    pub(super) missing: i128,
}
