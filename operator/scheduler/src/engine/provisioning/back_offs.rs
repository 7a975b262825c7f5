//! Flavors whose nodes did not come in time. The engine asks for them again after a back-off.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{FlavorName, QueueName};
use crate::time::Time;

const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(1800);

/// The back-offs, by queue and flavor.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct ProvisioningBackOffs {
    back_offs: BTreeMap<(QueueName, FlavorName), BackOff>,
}

/// A back-off. It doubles with each failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct BackOff {
    pub(in crate::engine) until: Time,
    /// Failures in a row.
    pub(in crate::engine) failures: u32,
}

impl ProvisioningBackOffs {
    /// Records that nodes of a flavor did not come for a gang of the queue.
    pub(in crate::engine) fn add_failure(
        &mut self,
        queue: &QueueName,
        flavor: &FlavorName,
        now: Time,
    ) {
        let key = (queue.clone(), flavor.clone());
        let before = self.back_offs.get(&key).map_or(0, |before| before.failures);
        let factor = 2_u32.saturating_pow(before);
        let back_off = BackOff {
            until: now.plus(FIRST.saturating_mul(factor).min(LONGEST)),
            failures: before.saturating_add(1),
        };
        self.back_offs.insert(key, back_off);
    }

    /// Records that nodes of these flavors came for a gang of the queue.
    pub(in crate::engine) fn clear<'a>(
        &mut self,
        queue: &QueueName,
        flavors: impl IntoIterator<Item = &'a FlavorName>,
    ) {
        for flavor in flavors {
            self.back_offs.remove(&(queue.clone(), flavor.clone()));
        }
    }

    /// Returns the end of a running back-off.
    pub(in crate::engine) fn back_off_end(
        &self,
        queue: &QueueName,
        flavor: &FlavorName,
        now: Time,
    ) -> Option<Time> {
        let back_off = self.back_offs.get(&(queue.clone(), flavor.clone()))?;
        (back_off.until > now).then_some(back_off.until)
    }

    /// Returns all back-offs, by queue and flavor.
    pub(in crate::engine) fn iter(
        &self,
    ) -> impl Iterator<Item = (&QueueName, &FlavorName, BackOff)> {
        let all = self.back_offs.iter();
        all.map(|((queue, flavor), back_off)| (queue, flavor, *back_off))
    }

    /// Restores a back-off.
    pub(in crate::engine) fn insert(
        &mut self,
        queue: QueueName,
        flavor: FlavorName,
        back_off: BackOff,
    ) {
        self.back_offs.insert((queue, flavor), back_off);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_doubles_up_to_half_an_hour_and_ends_with_a_success() {
        let (queue, flavor) = (QueueName::new("q"), FlavorName::new("h100"));
        let mut back_offs = ProvisioningBackOffs::default();
        let mut now = Time::from_millis(0);
        let mut waits = Vec::new();
        for _ in 0..7 {
            back_offs.add_failure(&queue, &flavor, now);
            let end = back_offs.back_off_end(&queue, &flavor, now).unwrap();
            waits.push(end.since(now).as_secs());
            now = end;
            assert_eq!(back_offs.back_off_end(&queue, &flavor, now), None);
        }
        assert_eq!(waits, [60, 120, 240, 480, 960, 1800, 1800]);
        back_offs.clear(&queue, [&flavor]);
        back_offs.add_failure(&queue, &flavor, now);
        let end = back_offs.back_off_end(&queue, &flavor, now).unwrap();
        assert_eq!(end.since(now).as_secs(), 60);
        let other = QueueName::new("other");
        assert_eq!(back_offs.back_off_end(&other, &flavor, now), None);
    }
}
