//! Why a queue is misconfigured.

use std::fmt;
use std::sync::Arc;

use crate::ids::{FlavorName, QueueName, ResourceName};
use crate::quota::amounts::FlavorResource;

/// The largest number of queues on the path from a root to a leaf, both included.
pub(crate) const MAX_DEPTH: usize = 16;

/// The largest number of members of a cycle that a message names.
const MAX_NAMED: usize = 8;

/// One of the amounts of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuotaField {
    Nominal,
    Borrowing,
    Lending,
}

impl fmt::Display for QuotaField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nominal => "nominal quota",
            Self::Borrowing => "borrowing limit",
            Self::Lending => "lending limit",
        })
    }
}

/// The reason why no gang of an existing queue starts. Neither its quota nor its usage counts for
/// any other queue until an administrator corrects the fault.
///
/// A queue with several faults reports the first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueueFault {
    /// The queue is its own parent.
    #[error("names itself as its parent: correct or remove spec.parentName")]
    OwnParent,
    /// The queue is below itself through other queues. All members of the cycle report the same
    /// list of members. It starts with the smallest name, and each member is below the next.
    #[error(
        "is part of a cycle of parents: {}; change spec.parentName of one of them",
        format_cycle(members)
    )]
    Cycle { members: Arc<[QueueName]> },
    /// An amount of its quota is negative.
    #[error("has a {limit} of {amount}: an amount cannot be negative")]
    NegativeAmount {
        of: FlavorResource,
        limit: QuotaField,
        amount: i64,
    },
    /// A flavor would have two quotas of the same resources.
    #[error("names flavor {:?} twice in one resource group", flavor.as_str())]
    FlavorTwice { flavor: FlavorName },
    /// Two flavors of a resource group name different resources, so the quota of the missing ones
    /// is unclear.
    #[error(
        "names other resources of flavor {:?} than of flavor {:?}, which is in the same resource group",
        other.as_str(), first.as_str()
    )]
    UnlikeFlavors {
        first: FlavorName,
        other: FlavorName,
    },
    /// Two resource groups would each choose a flavor for the resource.
    #[error("names resource {:?} in two resource groups", resource.as_str())]
    ResourceTwice { resource: ResourceName },
    /// The parent does not exist yet.
    #[error("is below {:?}, which does not exist: create that queue, or correct spec.parentName", parent.as_str())]
    ParentNotFound { parent: QueueName },
    /// Its parent is misconfigured, so the amount that it may borrow is unclear.
    #[error("is below {:?}, which is misconfigured", parent.as_str())]
    ParentFaulty { parent: QueueName },
    /// It is too far below its root.
    #[error("is more than {MAX_DEPTH} levels deep: put it below a queue nearer to the root")]
    TooDeep,
}

fn format_cycle(members: &[QueueName]) -> String {
    let mut names: Vec<String> = members
        .iter()
        .take(MAX_NAMED)
        .chain(members.first())
        .map(|name| format!("{:?}", name.as_str()))
        .collect();
    if members.len() > MAX_NAMED {
        names.insert(MAX_NAMED, "...".to_owned());
    }
    names.join(" below ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_cycle_has_a_short_message() {
        let members = (0..10_000).map(|i| QueueName::new(format!("q{i:04}")));
        let fault = QueueFault::Cycle {
            members: members.collect(),
        };
        assert_eq!(
            fault.to_string(),
            "is part of a cycle of parents: \"q0000\" below \"q0001\" below \"q0002\" below \
             \"q0003\" below \"q0004\" below \"q0005\" below \"q0006\" below \"q0007\" below \
             ... below \"q0000\"; change spec.parentName of one of them"
        );
    }
}
