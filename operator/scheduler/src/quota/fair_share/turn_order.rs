//! The order in which queues take turns.
//!
//! The order considers the gang that each queue would start next. First come queues that stay
//! within their nominal quota. Then come queues that stay within the quota of a queue above them,
//! the lowest of these first, as in Kueue (`FindHeightOfLowestSubtreeThatFits`). Last come queues
//! that borrow from their whole tree, and queues without any limit. Among equals, from the roots
//! down, the sibling with the higher priority goes first, if both stay within their quota; then the
//! sibling with the smaller share, then the sibling with the older gang, then the smaller name. One
//! exception: a borrowing queue comes after a queue that would preempt its new gang by the policy
//! for borrowing.
//!
//! Shares change with time, also those of idle queues. So the engine builds an order for one
//! instant: once a cycle, from the leaves with a gang to start. Each leaf costs at most its depth x
//! log(siblings). Most leaves cost one step, because the queues above are already in the order.
//! 10,000 leaves take about 10 ms. A charge during the cycle moves one leaf and the queues above
//! it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::share::FairShare;
use crate::ids::QueueName;
use crate::queue::BorrowWithinPolicy;
use crate::quota::amounts::Demand;
use crate::quota::tree::QuotaTree;
use crate::state::QueueIdx;
use crate::time::Time;

/// The height in the tree up to which a queue must borrow. The lowest level goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BorrowingLevel {
    /// The queue stays within its nominal quota.
    None,
    /// The queue stays within the quota of a queue that has this many levels of queues below it.
    Subtree(usize),
    /// The queue borrows from its whole tree, or has no limit.
    Tree,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct QueueRank {
    /// The priority, or 0 if the queue exceeds its quota.
    priority: Reverse<i32>,
    share: FairShare,
    /// The submission time of the first gang at or below the queue.
    submitted: Time,
    name: QueueName,
    queue: QueueIdx,
}

/// The queues of one borrowing level that have a gang to start, at the queue or below it.
#[derive(Debug)]
struct LevelOrder {
    borrowing: BorrowingLevel,
    /// The siblings by parent (None: the roots).
    siblings: BTreeMap<Option<QueueIdx>, BTreeSet<QueueRank>>,
    /// The ranks that `siblings` contains.
    ranks: BTreeMap<QueueIdx, QueueRank>,
}

/// The leaves that have a gang to start, at one instant. The order is valid until the tree's time,
/// queues or capacities change.
#[derive(Debug, Default)]
pub(crate) struct TurnOrder {
    levels: BTreeMap<BorrowingLevel, LevelOrder>,
    queue_facts: QueueFacts,
    leaves: BTreeMap<QueueIdx, LeafTurn>,
    /// Leaves that borrow and may preempt gangs of other borrowing queues.
    preemptors: BTreeSet<QueueIdx>,
}

/// Facts of queues that the order has computed so far.
#[derive(Debug, Default)]
struct QueueFacts {
    /// The shares by which the order ranks queues.
    shares: BTreeMap<QueueIdx, FairShare>,
    heights: BTreeMap<QueueIdx, usize>,
}

impl QueueFacts {
    fn share(&mut self, tree: &QuotaTree, at: QueueIdx) -> FairShare {
        *self.shares.entry(at).or_insert_with(|| tree.share(at))
    }

    fn height(&mut self, tree: &QuotaTree, at: QueueIdx) -> usize {
        *self.heights.entry(at).or_insert_with(|| tree.height(at))
    }
}

/// The gang that a leaf would start next.
#[derive(Clone, Debug, Default)]
pub(crate) struct NextGang {
    pub(crate) demand: Demand,
    pub(crate) submitted: Time,
    /// Quota that gangs of the same leaf give back when they leave for this gang.
    pub(crate) released: Demand,
    pub(crate) priority: i32,
    /// The gangs of other queues that it may preempt if both queues borrow.
    pub(crate) preempts: BorrowWithinPolicy,
}

#[derive(Clone, Debug)]
struct LeafTurn {
    next: NextGang,
    borrowing: BorrowingLevel,
}

impl TurnOrder {
    /// Sets the next gang of a leaf. Ignores a queue that is not a leaf, does not exist or is
    /// misconfigured.
    pub(crate) fn insert(&mut self, tree: &QuotaTree, leaf: QueueIdx, next: NextGang) {
        self.remove(tree, leaf);
        if !tree.is_leaf(leaf) || !tree.node(leaf).is_some_and(|n| n.is_counted()) {
            return;
        }
        let borrowing = self.borrowing_level(tree, leaf, &next);
        let submitted = next.submitted;
        if borrowing != BorrowingLevel::None && next.preempts != BorrowWithinPolicy::Never {
            self.preemptors.insert(leaf);
        }
        self.leaves.insert(leaf, LeafTurn { next, borrowing });
        let level = self.levels.entry(borrowing);
        let level = level.or_insert_with(|| LevelOrder::new(borrowing));
        level.set_next(tree, leaf, Some(submitted), &mut self.queue_facts);
    }

    /// Removes a leaf that has no gang to start.
    pub(crate) fn remove(&mut self, tree: &QuotaTree, leaf: QueueIdx) {
        let Some(ranked) = self.leaves.remove(&leaf) else {
            return;
        };
        self.preemptors.remove(&leaf);
        if let Some(level) = self.levels.get_mut(&ranked.borrowing) {
            level.set_next(tree, leaf, None, &mut self.queue_facts);
        }
    }

    /// Updates shares after a charge to a queue. The caller must insert the queue's next gang
    /// again.
    pub(crate) fn update_shares(&mut self, tree: &QuotaTree, queue: QueueIdx) {
        for (at, _) in tree.path(queue) {
            if let Some(share) = self.queue_facts.shares.get_mut(&at) {
                *share = tree.share(at);
            }
        }
        for level in self.levels.values_mut() {
            level.update_share(tree, queue, &mut self.queue_facts);
        }
    }

    /// Returns the leaf whose turn it is. A charge to a queue may raise the borrowing level of the
    /// queues beside it, and never lowers one. So this function computes the level of the first
    /// leaf again.
    pub(crate) fn first(&mut self, tree: &QuotaTree) -> Option<QueueIdx> {
        loop {
            let first = self.levels.values().find_map(LevelOrder::first)?;
            let LeafTurn { next, borrowing } = self.leaves.get(&first)?.clone();
            if self.borrowing_level(tree, first, &next) <= borrowing {
                return Some(self.preemptor(tree, first).unwrap_or(first));
            }
            self.insert(tree, first, next);
        }
    }

    /// Returns the leaf that would preempt the new gang of this leaf if both borrow. The preemptor
    /// goes first, because otherwise the new gang would have to leave at once. The highest priority
    /// wins.
    fn preemptor(&self, tree: &QuotaTree, of: QueueIdx) -> Option<QueueIdx> {
        let first = self.leaves.get(&of)?;
        if first.borrowing == BorrowingLevel::None || self.preemptors.is_empty() {
            return None;
        }
        let root = tree.root(of);
        let within = tree.lowest_within(of, &first.next.demand, &first.next.released);
        let preempts = |at: &&QueueIdx| {
            let Some(next) = self.leaves.get(*at).map(|leaf| &leaf.next) else {
                return false;
            };
            // The preemptor cannot reach a quota that is not also above its own queue.
            let reaches = || {
                let borrows = within.is_none_or(|within| tree.is_below(**at, within));
                borrows && tree.root(**at) == root
            };
            match next.preempts {
                BorrowWithinPolicy::Never => false,
                BorrowWithinPolicy::LowerPriority { .. } => {
                    next.preempts.allows(first.next.priority, next.priority) && reaches()
                }
                BorrowWithinPolicy::FairShare(victims) => {
                    let may = victims.includes(first.next.priority, next.priority)
                        && !first
                            .next
                            .preempts
                            .allows(next.priority, first.next.priority);
                    let shares =
                        || tree.compare_shares((**at, &next.demand), (of, &first.next.demand));
                    may && reaches() && shares().is_some_and(|(own, other)| own < other)
                }
            }
        };
        let preemptors = self.preemptors.iter().filter(preempts);
        preemptors
            .min_by_key(|at| {
                let next = self.leaves.get(*at).map(|leaf| &leaf.next);
                let rank = next.map(|next| (Reverse(next.priority), next.submitted));
                (rank, tree.name(**at))
            })
            .copied()
    }

    fn borrowing_level(
        &mut self,
        tree: &QuotaTree,
        leaf: QueueIdx,
        next: &NextGang,
    ) -> BorrowingLevel {
        match tree.lowest_within(leaf, &next.demand, &next.released) {
            Some(at) if at == leaf => BorrowingLevel::None,
            Some(at) if tree.node(at).is_some_and(|node| node.parent.is_some()) => {
                BorrowingLevel::Subtree(self.queue_facts.height(tree, at))
            }
            _ => BorrowingLevel::Tree,
        }
    }
}

impl LevelOrder {
    fn new(borrowing: BorrowingLevel) -> Self {
        Self {
            borrowing,
            siblings: BTreeMap::new(),
            ranks: BTreeMap::new(),
        }
    }

    /// Returns true if a queue stays within its quota with the next gang below it. A queue of a tree
    /// without quotas always does.
    fn stays_within_quota(&self, tree: &QuotaTree, at: QueueIdx, facts: &mut QueueFacts) -> bool {
        match self.borrowing {
            BorrowingLevel::None => true,
            BorrowingLevel::Subtree(lowest) => facts.height(tree, at) >= lowest,
            BorrowingLevel::Tree => !tree.is_limited(at),
        }
    }

    /// Sets the submission time of the next gang of a leaf. None: the leaf has no gang to start.
    fn set_next(
        &mut self,
        tree: &QuotaTree,
        leaf: QueueIdx,
        submitted: Option<Time>,
        facts: &mut QueueFacts,
    ) {
        let mut submitted = submitted;
        for (at, _) in tree.path(leaf) {
            if at != leaf {
                submitted = self.first_submitted_below(at);
            }
            if !self.set_rank(tree, at, submitted, facts) {
                return;
            }
        }
    }

    /// Updates the ranks of a queue and of those above it to their new shares.
    fn update_share(&mut self, tree: &QuotaTree, queue: QueueIdx, facts: &mut QueueFacts) {
        for (at, _) in tree.path(queue) {
            let own = self.ranks.get(&at).map(|rank| rank.submitted);
            let submitted = self.first_submitted_below(at).or(own);
            self.set_rank(tree, at, submitted, facts);
        }
    }

    /// Returns the submission time of the first gang below a queue.
    fn first_submitted_below(&self, at: QueueIdx) -> Option<Time> {
        let below = self.siblings.get(&Some(at))?;
        below.first().map(|rank| rank.submitted)
    }

    /// Gives a queue its rank. Returns true if the rank has changed.
    fn set_rank(
        &mut self,
        tree: &QuotaTree,
        at: QueueIdx,
        submitted: Option<Time>,
        facts: &mut QueueFacts,
    ) -> bool {
        let Some(node) = tree.node(at) else {
            return false;
        };
        let priority = node.config.as_ref().map_or(0, |config| config.priority);
        let counts = priority != 0 && self.stays_within_quota(tree, at, facts);
        let rank = submitted.map(|submitted| QueueRank {
            priority: Reverse(if counts { priority } else { 0 }),
            share: facts.share(tree, at),
            submitted,
            name: node.name.clone(),
            queue: at,
        });
        if self.ranks.get(&at) == rank.as_ref() {
            return false;
        }
        let siblings = self.siblings.entry(node.parent).or_default();
        if let Some(before) = self.ranks.remove(&at) {
            siblings.remove(&before);
        }
        if let Some(rank) = rank {
            siblings.insert(rank.clone());
            self.ranks.insert(at, rank);
        } else if siblings.is_empty() {
            self.siblings.remove(&node.parent);
        }
        true
    }

    fn first(&self) -> Option<QueueIdx> {
        let mut first = None;
        while let Some(rank) = self.siblings.get(&first).and_then(BTreeSet::first) {
            first = Some(rank.queue);
        }
        first
    }
}
