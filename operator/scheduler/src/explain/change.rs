//! The smallest change that would let a gang run.

use super::{WaitDetail, WaitExplanation};
use crate::ids::{FlavorName, LimitName, NodeName, QueueName, ResourceName};

/// The smallest change of one kind that removes a gang's reason to wait. For a gang of several task
/// groups that lacks room, the change is small but not always the smallest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnblockingChange {
    /// Raise each of these limits: then quota admits the gang.
    Raise(Vec<QuotaRaise>),
    /// Raise each of these limits outside queue quota.
    Allow(Vec<LimitRaise>),
    /// Free these further amounts on these nodes: then the gang has a place there. Ordered by node
    /// name.
    Free(Vec<NodeRelease>),
}

/// A quota or borrowing limit to raise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaRaise {
    /// The queue that has the limit.
    pub queue: QueueName,
    /// True: raise its borrowing limit. False: raise its nominal quota.
    pub borrowing_limit: bool,
    /// The flavor, unless it is the default one.
    pub flavor: Option<FlavorName>,
    /// The resource.
    pub resource: ResourceName,
    /// The amount to raise it by, in base units.
    pub by: i128,
}

/// A limit outside queue quota to raise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRaise {
    /// The limit.
    pub limit: LimitName,
    /// The resource that it counts. None: it counts gangs.
    pub resource: Option<ResourceName>,
    /// The amount to raise it by, in base units.
    pub by: i128,
}

/// Amounts to become free on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRelease {
    /// The node.
    pub node: NodeName,
    /// Amounts beyond the free capacity of now, in base units: devices first, then by name.
    pub amounts: Vec<(ResourceName, i128)>,
}

impl WaitExplanation {
    /// Returns the change, if it says more than the sentence about the shortage.
    pub(super) fn beyond_reason(&self) -> Option<&UnblockingChange> {
        let change = self.change.as_deref()?;
        let known = match (self.detail.as_ref(), change) {
            (
                WaitDetail::QuotaExceeded {
                    queue,
                    borrowing_limit,
                    missing,
                    ..
                },
                UnblockingChange::Raise(raises),
            ) => matches!(raises.as_slice(), [one]
                if one.queue == *queue && one.by == *missing
                    && one.borrowing_limit == *borrowing_limit),
            (
                WaitDetail::ExceedsQuota {
                    queue, needs, most, ..
                },
                UnblockingChange::Raise(raises),
            ) => matches!(raises.as_slice(), [one]
                if one.queue == *queue && one.by == needs.saturating_sub(*most)
                    && !one.borrowing_limit),
            // The sentence already names a change of a single limit.
            (WaitDetail::LimitExceeded { .. }, UnblockingChange::Allow(more)) => more.len() < 2,
            (
                WaitDetail::InsufficientCapacity {
                    resource, missing, ..
                },
                UnblockingChange::Free(nodes),
            ) => {
                let all = nodes.iter().flat_map(|on| &on.amounts);
                let mut sum = 0_i128;
                let mut others = false;
                for (of, amount) in all {
                    sum = sum.saturating_add(if of == resource { *amount } else { 0 });
                    others |= of != resource;
                }
                sum == *missing && !others
            }
            _ => false,
        };
        (!known).then_some(change)
    }
}
