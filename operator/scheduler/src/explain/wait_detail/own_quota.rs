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
    /// The queue's share of borrowed quota with the gang, if its policy takes quota by fair share.
    pub fair_share: Option<ShareComparison>,
}

/// The share of borrowed quota that a queue would have with a pending gang, and the largest share
/// among the queues that borrow the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareComparison {
    /// The share of the queue with the gang.
    pub own: FairShare,
    /// The queue with the largest share, and that share. None: no share is larger than `own`.
    pub larger: Option<(QueueName, FairShare)>,
}
