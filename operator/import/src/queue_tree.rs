//! The queues of one system in the input. In Volcano and KAI, the quota of a parent includes the
//! quotas of its children. In Trellis it does not.

use std::collections::BTreeMap;

use trellis_api::quantity::Amount;

/// An amount of a resource. None: no limit.
pub(crate) type Limit = Option<Amount>;

/// Greatest depth of a tree. It ends the search if parents form a cycle. Trellis starts no jobs in
/// such queues.
const MAX_DEPTH: usize = 32;

/// The note on a queue with less quota than its children.
pub(crate) const CHILDREN_EXCEED_PARENT: [&str; 2] = [
    "is less than the sum of the quotas of the queue's children, and Trellis grants each child its full quota",
    "lower the nominalQuota of the children",
];

/// An amount of one resource of a queue, quota and limit included.
#[derive(Clone, Copy, Default)]
pub(crate) struct QueueAmount {
    /// The guaranteed amount of the queue and the queues below it. None: the queue has no finite
    /// guarantee of its own, so only those of its children count.
    pub(crate) guaranteed: Limit,
    /// True if the queue has a finite quota or limit.
    pub(crate) is_limited: bool,
}

/// The amounts of a queue by resource.
pub(crate) type QueueAmounts = BTreeMap<String, QueueAmount>;

struct QueueEntry {
    parent: Option<String>,
    amounts: QueueAmounts,
}

/// Quota of a queue without the quotas of its children.
pub(crate) struct OwnQuota {
    pub(crate) nominal: Amount,
    /// The amount that the queue and those below it may borrow together.
    pub(crate) borrowing_limit: Limit,
    /// The amount of the whole tree of the queue.
    pub(crate) tree: Amount,
    /// True if the children have more quota than the queue.
    pub(crate) is_exceeded: bool,
}

/// The queues by name.
#[derive(Default)]
pub(crate) struct QueueTree(BTreeMap<String, QueueEntry>);

impl QueueTree {
    /// Adds a queue of the input.
    pub(crate) fn insert(&mut self, name: &str, parent: Option<&str>, amounts: QueueAmounts) {
        let parent = parent.map(str::to_owned);
        let entry = QueueEntry { parent, amounts };
        self.0.insert(name.to_owned(), entry);
    }

    /// Returns true if the input has a queue of this name.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns true if no queue of the input is below this one.
    pub(crate) fn is_leaf(&self, name: &str) -> bool {
        self.children(name).next().is_none()
    }

    /// Returns true if another queue of the input has no parent either.
    pub(crate) fn has_several_roots(&self) -> bool {
        self.0
            .values()
            .filter(|queue| queue.parent.is_none())
            .count()
            > 1
    }

    /// Returns true if no queue of the input has a finite quota or limit.
    pub(crate) fn is_unlimited(&self) -> bool {
        let mut amounts = self.0.values().flat_map(|queue| queue.amounts.values());
        amounts.all(|amount| !amount.is_limited)
    }

    /// Splits the amount `all` of a queue: its children have their quotas, and the queue has the
    /// rest.
    pub(crate) fn split(&self, name: &str, resource: &str, all: Amount, limit: Limit) -> OwnQuota {
        let below = self.guaranteed_below(name, resource);
        let tree = all.max(below);
        OwnQuota {
            nominal: all.saturating_sub(below),
            borrowing_limit: limit.map(|limit| limit.saturating_sub(tree)),
            tree,
            is_exceeded: all < below,
        }
    }

    /// Returns the sum of the amounts that the queues below a queue are guaranteed.
    fn guaranteed_below(&self, name: &str, resource: &str) -> Amount {
        self.sum_below(name, resource, MAX_DEPTH)
    }

    fn sum_below(&self, name: &str, resource: &str, depth: usize) -> Amount {
        let Some(depth) = depth.checked_sub(1) else {
            return Amount::ZERO;
        };
        let amounts = self.children(name).map(|(child, queue)| {
            let own = queue.amounts.get(resource).and_then(|own| own.guaranteed);
            let below = self.sum_below(child, resource, depth);
            // In Trellis, a tree has at least the sum of its queues.
            own.map_or(below, |own| own.max(below))
        });
        amounts.fold(Amount::ZERO, |sum, amount| {
            sum.checked_add(amount).unwrap_or(sum)
        })
    }

    /// Returns true if a queue above this one has a finite amount of the resource.
    pub(crate) fn has_limited_ancestor(&self, name: &str, resource: &str) -> bool {
        let parent = |name: &str| self.0.get(name)?.parent.as_deref();
        // A cycle has at most as many queues as the input.
        let ancestors = std::iter::successors(parent(name), |name| parent(name));
        let mut ancestors = ancestors.take(self.0.len());
        ancestors.any(|name| {
            let queue = self.0.get(name);
            let amount = queue.and_then(|queue| queue.amounts.get(resource));
            amount.is_some_and(|amount| amount.is_limited)
        })
    }

    fn children(&self, name: &str) -> impl Iterator<Item = (&str, &QueueEntry)> {
        let queues = self.0.iter().map(|(name, queue)| (name.as_str(), queue));
        queues.filter(move |(_, queue)| queue.parent.as_deref() == Some(name))
    }
}
