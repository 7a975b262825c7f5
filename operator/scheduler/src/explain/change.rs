//! The smallest change that would let a gang run.

use super::{Certificate, Detail};
use crate::ids::{FlavorName, LimitName, NodeName, QueueName, ResourceName};

/// What would let a gang pass what it waits for, and nothing less of that kind; for a
/// gang of several task groups that has to find room, little of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Each of these limits is raised: then quota allows it.
    Raise(Vec<Raise>),
    /// Each of these limits, which are none of a queue's, is raised.
    Allow(Vec<Allow>),
    /// On each of these nodes so much more becomes free: then it has a place there.
    /// By name of the node.
    Free(Vec<FreeOn>),
}

/// A limit that is raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raise {
    /// Of this queue.
    pub queue: QueueName,
    /// Its borrowing limit; else its nominal quota.
    pub borrowing_limit: bool,
    /// The flavor, where it is not the default one.
    pub flavor: Option<FlavorName>,
    /// The resource.
    pub resource: ResourceName,
    /// By so much, in base units.
    pub by: i128,
}

/// A limit that is raised, and is none of a queue's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    /// The limit.
    pub limit: LimitName,
    /// The resource that it counts. None: it counts gangs.
    pub resource: Option<ResourceName>,
    /// By so much, in base units.
    pub by: i128,
}

/// What becomes free on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeOn {
    /// The node.
    pub node: NodeName,
    /// So much more of each of these than is free now, in base units: devices first,
    /// then by name.
    pub amounts: Vec<(ResourceName, i128)>,
}

impl Certificate {
    /// The change, where it says more than the sentence about what lacks.
    pub(super) fn news(&self) -> Option<&Change> {
        let change = self.change.as_deref()?;
        let known = match (self.detail.as_ref(), change) {
            (
                Detail::QuotaExceeded {
                    queue,
                    borrowing_limit,
                    missing,
                    ..
                },
                Change::Raise(raises),
            ) => matches!(raises.as_slice(), [one]
                if one.queue == *queue && one.by == *missing
                    && one.borrowing_limit == *borrowing_limit),
            (
                Detail::ExceedsQuota {
                    queue, needs, most, ..
                },
                Change::Raise(raises),
            ) => matches!(raises.as_slice(), [one]
                if one.queue == *queue && one.by == needs.saturating_sub(*most)
                    && !one.borrowing_limit),
            // What it says of one limit, the sentence does.
            (Detail::LimitExceeded { .. }, Change::Allow(more)) => more.len() < 2,
            (
                Detail::InsufficientCapacity {
                    resource, missing, ..
                },
                Change::Free(nodes),
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
