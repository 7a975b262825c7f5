//! The algebra of one resource of one flavor in one queue.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::queue_config::Quota;
use crate::ids::QueueName;
use crate::state::QueueIdx;

/// The contribution of a child that its parent counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::quota) struct Contribution {
    /// The part of the child's quota that other queues may hold.
    lent: i128,
    /// The part of the child's usage that its local quota does not cover.
    passed: i128,
    /// How many queues name a quota, from the child down.
    naming_queues: u32,
    /// Units that the child holds beyond its quota.
    borrowed: i128,
}

/// A child that holds more than its quota. The order is by borrowed amount, the largest first, then
/// by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::quota) struct OverQuotaChild {
    pub(in crate::quota) borrowed: Reverse<i128>,
    pub(in crate::quota) name: QueueName,
    pub(in crate::quota) queue: QueueIdx,
}

/// The quota and usage of one resource of one flavor in one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::quota) struct QuotaCell {
    /// None: the queue does not name the resource.
    pub(in crate::quota) quota: Option<Quota>,
    /// Units charged to the queue itself.
    pub(in crate::quota) own: i128,
    /// If true, `own` does not count against quota.
    pub(in crate::quota) exempt: bool,
    lent: i128,
    passed: i128,
    naming_queues: u32,
    /// The children that hold more than their quota.
    pub(in crate::quota) over_quota: BTreeSet<OverQuotaChild>,
}

/// The cell of a queue that neither names nor uses a resource.
pub(in crate::quota) static EMPTY_CELL: QuotaCell = QuotaCell {
    quota: None,
    own: 0,
    exempt: false,
    lent: 0,
    passed: 0,
    naming_queues: 0,
    over_quota: BTreeSet::new(),
};

impl QuotaCell {
    pub(in crate::quota) fn nominal(&self) -> i128 {
        self.quota.map_or(0, |quota| i128::from(quota.nominal))
    }

    /// Returns the nominal quota, plus the quota that its children do not keep local.
    pub(in crate::quota) fn subtree(&self) -> i128 {
        self.nominal().saturating_add(self.lent)
    }

    /// Returns the part of its quota that no other queue may hold.
    pub(in crate::quota) fn local(&self) -> i128 {
        match self.quota.and_then(|quota| quota.lending_limit) {
            Some(limit) => self.subtree().saturating_sub(i128::from(limit)).max(0),
            None => 0,
        }
    }

    /// Returns the units that count against its quota.
    pub(in crate::quota) fn usage(&self) -> i128 {
        self.counted_own().saturating_add(self.passed)
    }

    /// Returns the part of `own` that counts.
    pub(in crate::quota) fn counted_own(&self) -> i128 {
        if self.exempt { 0 } else { self.own }
    }

    /// Returns the part of the usage that its local quota does not cover. This part also counts in
    /// the queues above.
    pub(in crate::quota) fn passed_on(&self) -> i128 {
        self.usage().saturating_sub(self.local()).max(0)
    }

    /// Returns the units that it holds beyond its quota.
    pub(in crate::quota) fn borrowed(&self) -> i128 {
        self.usage().saturating_sub(self.subtree()).max(0)
    }

    /// Returns the most that it may hold. None: only its parent limits it.
    pub(in crate::quota) fn max_usage(&self, root: bool) -> Option<i128> {
        if root {
            return Some(self.subtree());
        }
        let limit = self.quota?.borrowing_limit?;
        Some(self.subtree().saturating_add(i128::from(limit)))
    }

    /// Returns the units that are missing for `need` more, with `usage` in use.
    pub(in crate::quota) fn missing(&self, need: i128, usage: i128, root: bool) -> i128 {
        self.max_usage(root).map_or(0, |bound| {
            usage.saturating_add(need).saturating_sub(bound).max(0)
        })
    }

    /// Returns the part of `need` that local quota does not cover, with `usage` in use.
    pub(in crate::quota) fn beyond_local(&self, need: i128, usage: i128) -> i128 {
        let left = self.local().saturating_sub(usage).max(0);
        need.saturating_sub(left).max(0)
    }

    /// Returns the units that are available here, with `usage` in use and `parent` available in the
    /// parent. `parent` is None for a root.
    pub(in crate::quota) fn available(&self, usage: i128, parent: Option<i128>) -> i128 {
        let (subtree, local) = (self.subtree(), self.local());
        let Some(parent) = parent else {
            return subtree.saturating_sub(usage);
        };
        let in_parent = match self.quota.and_then(|quota| quota.borrowing_limit) {
            None => parent,
            Some(limit) => {
                let used = usage.saturating_sub(local).max(0);
                let left = subtree.saturating_sub(local).saturating_sub(used);
                parent.min(left.saturating_add(i128::from(limit)))
            }
        };
        if usage > local {
            return in_parent;
        }
        // The debt of another queue never reduces a guarantee.
        local.saturating_sub(usage).saturating_add(in_parent.max(0))
    }

    /// Returns true if a queue names the resource, from here down.
    pub(in crate::quota) fn is_named(&self) -> bool {
        self.naming_queues > 0 || self.quota.is_some()
    }

    /// Returns the contribution that the parent counts.
    pub(in crate::quota) fn contribution(&self) -> Contribution {
        let (subtree, local, usage) = (self.subtree(), self.local(), self.usage());
        Contribution {
            lent: subtree.saturating_sub(local),
            passed: self.passed_on(),
            naming_queues: self
                .naming_queues
                .saturating_add(u32::from(self.quota.is_some())),
            borrowed: usage.saturating_sub(subtree).max(0),
        }
    }

    /// Replaces the contribution of a child.
    pub(in crate::quota) fn replace(
        &mut self,
        (queue, name): (QueueIdx, QueueName),
        before: &Contribution,
        now: &Contribution,
    ) {
        let moved =
            |sum: i128, before: i128, now: i128| sum.saturating_add(now.saturating_sub(before));
        self.lent = moved(self.lent, before.lent, now.lent);
        self.passed = moved(self.passed, before.passed, now.passed);
        self.naming_queues = self
            .naming_queues
            .saturating_sub(before.naming_queues)
            .saturating_add(now.naming_queues);
        if before.borrowed == now.borrowed {
            return;
        }
        let mut over = OverQuotaChild {
            borrowed: Reverse(before.borrowed),
            name,
            queue,
        };
        self.over_quota.remove(&over);
        if now.borrowed > 0 {
            over.borrowed = Reverse(now.borrowed);
            self.over_quota.insert(over);
        }
    }

    /// Returns true if the cell holds no information.
    pub(in crate::quota) fn is_empty(&self) -> bool {
        self.quota.is_none() && self.own == 0 && self.naming_queues == 0 && self.passed == 0
    }
}
