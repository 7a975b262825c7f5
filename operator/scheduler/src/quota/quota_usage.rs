//! The quota numbers in the status of a queue.

use super::amounts::FlavorResource;
use super::tree::QuotaTree;
use super::tree::quota_arithmetic::QuotaCell;
use crate::state::QueueIdx;

/// The state of a queue's quota of one resource of one flavor, in base units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuotaUsage {
    pub(crate) flavor_resource: FlavorResource,
    pub(crate) nominal: i128,
    /// Nominal quota, plus what the queues below lend.
    pub(crate) quota: i128,
    /// Units that count against the quota.
    pub(crate) usage: i128,
    /// Units held beyond the quota.
    pub(crate) borrowed: i128,
    /// Units of the quota that other queues may hold.
    pub(crate) lendable: i128,
    /// How much more the queue may get now. None: it has no limit.
    pub(crate) available: Option<i128>,
}

impl QuotaTree {
    /// Returns the state of all quotas that a queue or the queues below it name or use, ordered by
    /// flavor and resource.
    pub(crate) fn quota_usages(&self, queue: QueueIdx) -> Vec<QuotaUsage> {
        let Some(node) = self.node(queue) else {
            return Vec::new();
        };
        // A queue borrows nothing if its tree has no limits or if it does not count.
        let limited = node.is_counted()
            && self
                .path(queue)
                .last()
                .is_some_and(|(_, root)| root.queues_with_quotas > 0);
        let standing = |(what, cell): (&FlavorResource, &QuotaCell)| QuotaUsage {
            flavor_resource: *what,
            nominal: cell.nominal(),
            quota: cell.subtree(),
            usage: cell.usage(),
            borrowed: if limited { cell.borrowed() } else { 0 },
            lendable: cell.subtree().saturating_sub(cell.local()),
            available: self.available(queue, *what),
        };
        node.cells.iter().map(standing).collect()
    }
}
