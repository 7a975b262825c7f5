//! Amounts of resources, by name.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::ids::ResourceName;

/// Amounts by resource, in base units: thousandths of a core for `cpu`, bytes for `memory` and
/// `ephemeral-storage`, a count for every other resource.
///
/// Amounts are never negative: this type stores a negative amount as 0. A resource without an entry
/// counts as 0. An entry of 0 is kept, because a node that lists a device with 0 has a device
/// plugin that is silent.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Resources(BTreeMap<ResourceName, i64>);

/// A sum or product that does not fit into 64 bits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the amount of {resource:?} is too large to count", resource = resource.as_str())]
pub struct AmountOverflow {
    /// The resource.
    pub resource: ResourceName,
}

impl Resources {
    /// Returns an empty set of amounts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the resources with this amount of one resource.
    #[must_use]
    pub fn with(mut self, resource: &str, amount: i64) -> Self {
        self.set(ResourceName::new(resource), amount);
        self
    }

    /// Sets the amount of one resource.
    pub fn set(&mut self, resource: ResourceName, amount: i64) {
        self.0.insert(resource, amount.max(0));
    }

    /// Returns the amount of one resource, or 0 without an entry.
    #[must_use]
    pub fn get(&self, resource: &ResourceName) -> i64 {
        self.0.get(resource).copied().unwrap_or(0)
    }

    /// Returns true if all amounts are 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.values().all(|amount| *amount == 0)
    }

    /// Returns the entries with their amounts, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, i64)> {
        self.0.iter().map(|(resource, amount)| (resource, *amount))
    }

    /// Returns the sum of both.
    ///
    /// # Errors
    ///
    /// [`AmountOverflow`] names the first resource whose sum does not fit into 64 bits.
    pub fn checked_add(&self, other: &Self) -> Result<Self, AmountOverflow> {
        let mut sum = self.clone();
        for (resource, amount) in other.iter() {
            let total = sum
                .get(resource)
                .checked_add(amount)
                .ok_or_else(|| AmountOverflow {
                    resource: resource.clone(),
                })?;
            sum.set(resource.clone(), total);
        }
        Ok(sum)
    }

    /// Returns the resources multiplied by `times`.
    ///
    /// # Errors
    ///
    /// [`AmountOverflow`] names the first resource whose product does not fit into 64 bits.
    pub fn checked_mul(&self, times: u32) -> Result<Self, AmountOverflow> {
        self.iter()
            .map(|(resource, amount)| {
                amount
                    .checked_mul(i64::from(times))
                    .map(|product| (resource.clone(), product))
                    .ok_or_else(|| AmountOverflow {
                        resource: resource.clone(),
                    })
            })
            .collect()
    }
}

/// If a resource occurs several times, the last amount counts.
impl FromIterator<(ResourceName, i64)> for Resources {
    fn from_iter<I: IntoIterator<Item = (ResourceName, i64)>>(amounts: I) -> Self {
        let mut resources = Self::new();
        for (resource, amount) in amounts {
            resources.set(resource, amount);
        }
        resources
    }
}

/// A negative amount is an error: its writer is no engine of this version.
impl<'de> Deserialize<'de> for Resources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let amounts = BTreeMap::<ResourceName, i64>::deserialize(deserializer)?;
        match amounts.iter().find(|(_, amount)| **amount < 0) {
            None => Ok(Self(amounts)),
            Some((resource, amount)) => {
                let resource = resource.as_str();
                Err(D::Error::custom(format!(
                    "the amount of {resource:?} is {amount}: it must be 0 or more"
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(amount: i64) -> Resources {
        Resources::new().with("nvidia.com/gpu", amount)
    }

    #[test]
    fn negative_and_zero_amounts_are_dropped() {
        assert_eq!(gpu(-1), gpu(0));
        assert!(gpu(0).is_empty());
        assert_eq!(gpu(0).iter().count(), 1, "what is named is kept");
    }

    #[test]
    fn negative_amount_of_a_snapshot_is_refused() {
        let read = |json| serde_json::from_str::<Resources>(json);
        assert_eq!(read(r#"{"nvidia.com/gpu": 8}"#).unwrap(), gpu(8));
        let error = read(r#"{"nvidia.com/gpu": -1}"#).unwrap_err().to_string();
        assert!(
            error.starts_with("the amount of \"nvidia.com/gpu\" is -1: it must be 0 or more"),
            "{error}"
        );
    }

    #[test]
    fn sums_and_products_never_wrap() {
        assert_eq!(gpu(3).checked_add(&gpu(4)), Ok(gpu(7)));
        assert_eq!(gpu(8).checked_mul(64), Ok(gpu(512)));
        assert_eq!(gpu(8).checked_mul(0), Ok(gpu(0)));
        let resource = ResourceName::new("nvidia.com/gpu");
        assert_eq!(
            gpu(i64::MAX).checked_add(&gpu(1)),
            Err(AmountOverflow {
                resource: resource.clone()
            })
        );
        let error = gpu(i64::MAX).checked_mul(2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the amount of \"nvidia.com/gpu\" is too large to count"
        );
    }
}
