//! Sums of the quota that a set of gangs holds of each queue.

use std::collections::BTreeMap;

use crate::ids::QueueName;
use crate::quota::{Demand, FlavorResource};

/// Amounts by queue, without queues of which the gangs hold no quota.
#[derive(Debug, Default)]
pub(super) struct QueueSums(BTreeMap<QueueName, BTreeMap<FlavorResource, i128>>);

impl QueueSums {
    /// Adds the demand of a gang.
    pub(super) fn add(&mut self, queue: &QueueName, demand: &Demand) {
        for (what, amount) in demand.iter() {
            let sums = self.0.entry(queue.clone()).or_default();
            let sum = sums.entry(what).or_default();
            *sum = sum.saturating_add(amount);
        }
    }

    /// Removes the demand of a gang.
    pub(super) fn remove(&mut self, queue: &QueueName, demand: &Demand) {
        let Some(sums) = self.0.get_mut(queue) else {
            return;
        };
        for (what, amount) in demand.iter() {
            if let Some(sum) = sums.get_mut(&what) {
                *sum = sum.saturating_sub(amount);
            }
        }
        sums.retain(|_, sum| *sum > 0);
        if sums.is_empty() {
            self.0.remove(queue);
        }
    }

    /// Returns the amounts that the gangs hold of a queue.
    pub(super) fn get(&self, queue: &QueueName) -> Option<&BTreeMap<FlavorResource, i128>> {
        self.0.get(queue)
    }

    pub(super) fn amount(&self, queue: &QueueName, what: FlavorResource) -> i128 {
        let sum = self.0.get(queue).and_then(|sums| sums.get(&what));
        sum.copied().unwrap_or_default()
    }

    pub(super) fn iter(
        &self,
    ) -> impl Iterator<Item = (&QueueName, &BTreeMap<FlavorResource, i128>)> {
        self.0.iter()
    }
}
