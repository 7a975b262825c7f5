//! A row of a list. Pure.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use trellis_api::quantity::Amount;
use trellis_api::queue::DecayedUsage;
use trellis_api::visibility::{JobState, NodeState, QueueState};

/// Smallest change of an estimate that is worth a new row.
const MIN_CHANGE: SignedDuration = SignedDuration::from_secs(5);

/// The circumstances of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Time of the read.
    pub(crate) now: Timestamp,
    /// True: the orders of the queues tell the positions of the jobs.
    pub(crate) has_orders: bool,
}

/// A row of a list.
pub(crate) trait Row: PartialEq + Serialize + Send + Sync + 'static {
    /// The name of the row in its list.
    fn key(&self) -> String;

    /// Returns true if a reader of the old row misses nothing in the new one.
    fn is_same(&self, new: &Self, _reading: Reading) -> bool {
        self == new
    }
}

impl Row for JobState {
    fn key(&self) -> String {
        let (namespace, name) = (&self.metadata.namespace, &self.metadata.name);
        format!(
            "{}/{}",
            namespace.as_deref().unwrap_or_default(),
            name.as_deref().unwrap_or_default()
        )
    }

    /// An expected time that has moved by little is the same: else each end of a job would change
    /// the rows of all jobs behind it. So is another position, if the order of the queue tells it.
    fn is_same(&self, new: &Self, reading: Reading) -> bool {
        let starts = (&self.expected_start, &new.expected_start);
        let ends = (&self.expected_end, &new.expected_end);
        if !is_same_estimate(starts, reading.now) || !is_same_estimate(ends, reading.now) {
            return false;
        }
        let as_old = Self {
            expected_start: self.expected_start.clone(),
            expected_end: self.expected_end.clone(),
            position: match (self.position, new.position) {
                (Some(old), Some(_)) if reading.has_orders => Some(old),
                (_, new) => new,
            },
            ..new.clone()
        };
        *self == as_old
    }
}

impl Row for QueueState {
    fn key(&self) -> String {
        self.metadata.name.clone().unwrap_or_default()
    }

    /// Decayed usage changes at each moment. It is the same while it has moved by at most one
    /// percent.
    fn is_same(&self, new: &Self, _reading: Reading) -> bool {
        let (old_usage, new_usage) = (&self.decayed_usage, &new.decayed_usage);
        let mut pairs = old_usage.iter().zip(new_usage);
        let is_same_usage = old_usage.len() == new_usage.len()
            && pairs.all(|(old, new)| old.resource == new.resource && is_near(old, new));
        let as_old = Self {
            decayed_usage: self.decayed_usage.clone(),
            decayed_time: self.decayed_time.clone(),
            ..new.clone()
        };
        is_same_usage && *self == as_old
    }
}

impl Row for NodeState {
    fn key(&self) -> String {
        self.metadata.name.clone().unwrap_or_default()
    }
}

/// Returns true if the amount has moved by at most one percent.
fn is_near(old: &DecayedUsage, new: &DecayedUsage) -> bool {
    let units = |usage: &DecayedUsage| usage.amount.amount().map(Amount::floor_units);
    match (units(old), units(new)) {
        (Ok(old), Ok(new)) => {
            let moved = new.saturating_sub(old).saturating_abs();
            moved.saturating_mul(100) <= old.saturating_abs()
        }
        _ => old.amount == new.amount,
    }
}

/// Returns true if an expected time has moved by at most five seconds, or by one percent of the time
/// that is left.
fn is_same_estimate(times: (&Option<Time>, &Option<Time>), now: Timestamp) -> bool {
    let (old, new) = match times {
        (None, None) => return true,
        (Some(old), Some(new)) => (old.0, new.0),
        _ => return false,
    };
    let moved = new.duration_since(old).abs();
    let left = old.duration_since(now).abs();
    let percent = left.checked_div(100).unwrap_or_default();
    moved <= MIN_CHANGE.max(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(now: &str) -> Reading {
        Reading {
            now: now.parse().unwrap(),
            has_orders: true,
        }
    }

    fn job(start: &str) -> JobState {
        JobState {
            expected_start: Some(Time(start.parse().unwrap())),
            ..JobState::new("ml", "llm", "default")
        }
    }

    fn queue(used: &str, pending: i64) -> QueueState {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "QueueState",
            "metadata": {"name": "research"}, "weight": 1, "pending": pending, "admitted": 9,
            "decayedUsage": [{"resource": "nvidia.com/gpu", "amount": used}],
        }))
        .unwrap()
    }

    #[test]
    fn small_moves_of_decayed_usage_are_the_same_row() {
        let now = reading("1970-01-01T00:00:00Z");
        let old = queue("1000", 1);
        assert!(old.is_same(&queue("1010", 1), now));
        assert!(!old.is_same(&queue("1011", 1), now));
        assert!(!old.is_same(&queue("989", 1), now));
        assert!(!old.is_same(&queue("1000", 2), now));
    }

    #[test]
    fn small_moves_of_an_estimate_are_the_same_row() {
        let now = reading("2026-01-01T12:00:00Z");
        let old = job("2026-01-01T13:00:00Z");
        for (start, same) in [
            ("2026-01-01T13:00:05Z", true),
            ("2026-01-01T13:00:36Z", true),
            ("2026-01-01T13:00:37Z", false),
            ("2026-01-01T12:59:24Z", true),
            ("2026-01-01T12:59:23Z", false),
        ] {
            assert_eq!(old.is_same(&job(start), now), same, "{start}");
        }
        let at = |position| JobState {
            position,
            ..old.clone()
        };
        assert!(at(Some(1)).is_same(&at(Some(2)), now));
        let without_orders = Reading {
            has_orders: false,
            ..now
        };
        assert!(!at(Some(1)).is_same(&at(Some(2)), without_orders));
        assert!(!at(None).is_same(&at(Some(2)), now));
        assert!(!at(Some(1)).is_same(&at(None), now));
        assert!(!old.is_same(&JobState::new("ml", "llm", "default"), now));
    }
}
