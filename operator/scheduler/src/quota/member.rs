//! A queue as its administrator wrote it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::amounts::FlavorResource;
use super::misconfigured::{Limit, Misconfigured};
use crate::ids::QueueName;

/// How much of one resource of one flavor, in base units.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Quota {
    /// What it has of its own.
    pub nominal: i64,
    /// How much more than its subtree's quota it may hold. None: as much as others
    /// leave idle.
    pub borrowing_limit: Option<i64>,
    /// How much of its subtree's quota others may hold. None: all of it.
    pub lending_limit: Option<i64>,
}

/// What a queue's share is divided by, in thousandths. A queue of weight 0 comes
/// after all of its siblings that have a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Weight(u32);

impl Weight {
    /// So many thousandths.
    #[must_use]
    pub const fn from_thousandths(thousandths: u32) -> Self {
        Self(thousandths)
    }

    /// In thousandths.
    #[must_use]
    pub const fn as_thousandths(self) -> u32 {
        self.0
    }
}

/// One.
impl Default for Weight {
    fn default() -> Self {
        Self(1_000)
    }
}

/// A queue of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    /// The queue that it is below. None: it is a root.
    pub(crate) parent: Option<QueueName>,
    pub(crate) weight: Weight,
    /// What is wrong with its resource groups.
    pub(crate) unusable: Option<Misconfigured>,
    /// None: it names no quotas at all.
    pub(crate) quotas: Option<BTreeMap<FlavorResource, Quota>>,
}

impl Member {
    /// What it names cannot be counted: why.
    pub(super) fn fault(&self) -> Option<Misconfigured> {
        self.unusable.clone().or_else(|| self.wrong_amount())
    }

    /// The first amount that makes no sense.
    fn wrong_amount(&self) -> Option<Misconfigured> {
        self.quotas.iter().flatten().find_map(|(what, quota)| {
            let amounts = [
                (Limit::Nominal, Some(quota.nominal)),
                (Limit::Borrowing, quota.borrowing_limit),
                (Limit::Lending, quota.lending_limit),
            ];
            let negative = |(_, amount): &(Limit, Option<i64>)| amount.is_some_and(|a| a < 0);
            let (limit, amount) = amounts.into_iter().find(negative)?;
            Some(Misconfigured::NegativeAmount {
                of: *what,
                limit,
                amount: amount.unwrap_or_default(),
            })
        })
    }
}
