//! A row of a list. Pure.

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use trellis_api::visibility::{JobState, NodeState, QueueState, is_same_estimate, is_same_usage};

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
        let (start, new_start) = (self.expected_start.as_ref(), new.expected_start.as_ref());
        let (end, new_end) = (self.expected_end.as_ref(), new.expected_end.as_ref());
        if !is_same_estimate(start, new_start, reading.now)
            || !is_same_estimate(end, new_end, reading.now)
        {
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
        let as_old = Self {
            decayed_usage: self.decayed_usage.clone(),
            decayed_time: self.decayed_time.clone(),
            ..new.clone()
        };
        is_same_usage(&self.decayed_usage, &new.decayed_usage) && *self == as_old
    }
}

impl Row for NodeState {
    fn key(&self) -> String {
        self.metadata.name.clone().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

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
