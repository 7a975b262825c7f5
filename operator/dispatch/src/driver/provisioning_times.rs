//! How long new nodes of each flavor usually take.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use trellis_scheduler::FlavorName;

/// Number of latest orders that count for the median of a flavor.
const MAX_ORDERS: usize = 20;

/// Times from an order to the start of its gang, by flavor.
#[derive(Debug, Default)]
pub(super) struct ProvisioningTimes(BTreeMap<FlavorName, VecDeque<Duration>>);

impl ProvisioningTimes {
    /// Adds an order whose gang has started.
    pub(super) fn add(&mut self, flavor: FlavorName, took: Duration) {
        let times = self.0.entry(flavor).or_default();
        if times.len() == MAX_ORDERS {
            times.pop_front();
        }
        times.push_back(took);
    }

    /// Returns the median time. None: no order of the flavor has been used.
    pub(super) fn median(&self, flavor: &FlavorName) -> Option<Duration> {
        let mut times: Vec<Duration> = self.0.get(flavor)?.iter().copied().collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_covers_only_the_latest_orders_of_its_flavor() {
        let (h100, a100) = (FlavorName::new("h100"), FlavorName::new("a100"));
        let mut times = ProvisioningTimes::default();
        assert_eq!(times.median(&h100), None);
        for seconds in [900, 10, 30] {
            times.add(h100.clone(), Duration::from_secs(seconds));
        }
        assert_eq!(times.median(&h100), Some(Duration::from_secs(30)));
        for _ in 0..MAX_ORDERS {
            times.add(h100.clone(), Duration::from_secs(60));
        }
        assert_eq!(times.median(&h100), Some(Duration::from_secs(60)));
        assert_eq!(times.median(&a100), None);
    }
}
