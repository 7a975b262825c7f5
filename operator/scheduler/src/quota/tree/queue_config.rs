//! A queue as its administrator wrote it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::queue_fault::{QueueFault, QuotaField};
use crate::ids::QueueName;
use crate::quota::amounts::FlavorResource;

/// The quota of one resource of one flavor, in base units.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Quota {
    /// Units that the queue owns.
    pub nominal: i64,
    /// How much the queue may hold beyond its subtree's quota. None: as much as other queues leave
    /// idle.
    pub borrowing_limit: Option<i64>,
    /// How much of its subtree's quota other queues may hold. None: all of it.
    pub lending_limit: Option<i64>,
}

/// The weight of a queue, in thousandths: its share is divided by it. A queue of weight 0 comes
/// after all siblings that have a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Weight(u32);

impl Weight {
    /// Creates a weight from thousandths.
    #[must_use]
    pub const fn from_thousandths(thousandths: u32) -> Self {
        Self(thousandths)
    }

    /// Returns the weight in thousandths.
    #[must_use]
    pub(crate) const fn as_thousandths(self) -> u32 {
        self.0
    }
}

/// A weight of 1.
impl Default for Weight {
    fn default() -> Self {
        Self(1_000)
    }
}

/// A queue of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueConfig {
    /// The parent queue. None: it is a root.
    pub(crate) parent: Option<QueueName>,
    pub(crate) weight: Weight,
    /// The priority among its siblings that stay within their quota.
    pub(crate) priority: i32,
    /// The fault of its resource groups, if any.
    pub(crate) group_fault: Option<QueueFault>,
    /// None: it has no quotas.
    pub(crate) quotas: Option<BTreeMap<FlavorResource, Quota>>,
}

impl QueueConfig {
    /// Returns the reason why the tree cannot count its quotas, if any.
    pub(in crate::quota) fn find_fault(&self) -> Option<QueueFault> {
        self.group_fault
            .clone()
            .or_else(|| self.find_invalid_amount())
    }

    /// Returns the first invalid amount.
    fn find_invalid_amount(&self) -> Option<QueueFault> {
        self.quotas.iter().flatten().find_map(|(what, quota)| {
            let amounts = [
                (QuotaField::Nominal, Some(quota.nominal)),
                (QuotaField::Borrowing, quota.borrowing_limit),
                (QuotaField::Lending, quota.lending_limit),
            ];
            let negative = |(_, amount): &(QuotaField, Option<i64>)| amount.is_some_and(|a| a < 0);
            let (limit, amount) = amounts.into_iter().find(negative)?;
            Some(QueueFault::NegativeAmount {
                of: *what,
                limit,
                amount: amount.unwrap_or_default(),
            })
        })
    }
}
