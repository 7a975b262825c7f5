//! The quota of a gang's own queue, as an explanation reports it.

use crate::ids::QueueName;
use crate::queue::ReclaimPolicy;
use crate::quota::FairShare;

/// The state of a queue's own quota of a resource, in base units: configured and computed numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnQuota {
    /// The queue.
    pub queue: QueueName,
    /// Its nominal quota.
    pub nominal: i128,
    /// Units that its gangs hold.
    pub usage: i128,
    /// Units that it may borrow now, on top of what it already borrows.
    pub may_borrow: i128,
    /// Units of the gang's need that it would borrow.
    pub would_borrow: i128,
    /// The queue's reclaim policy, if other queues borrow quota that they owe this queue and the
    /// policy forbids reclaiming it. None: no queue owes it quota, or the policy allows reclaiming.
    pub reclaim: Option<ReclaimPolicy>,
}

/// The borrowed shares of two sibling queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareComparison {
    /// The queue of the pending gang, or a queue above it.
    pub queue: QueueName,
    /// Its share with the gang.
    pub share: FairShare,
    /// The queue with the largest share among the borrowers, or a queue above that one.
    pub other: QueueName,
    /// Its share.
    pub other_share: FairShare,
}
