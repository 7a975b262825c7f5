//! Tells a row with news from a row that has only moved a little. Pure.
//!
//! Estimates and positions move all the time. If each move were an event, the end of one job would
//! cost an event for each job behind it, for each reader.

use jiff::Timestamp;
use trellis_api::visibility::{JobState, NodeState, QueueState, is_same_estimate, is_same_usage};

/// Positions up to this one are exact in each event.
const EXACT_POSITIONS: u32 = 100;

/// The circumstances of a look at the rows.
#[derive(Clone, Copy, Debug)]
pub(in crate::endpoint::visibility) struct Look {
    /// Time of the rows.
    pub(super) now: Timestamp,
    /// True: each position is news. All later positions are renewed together, so that they stay in
    /// the order of the queue.
    pub(super) renews_positions: bool,
}

/// A row whose changes are events.
pub(in crate::endpoint::visibility) trait ComparableRow:
    PartialEq
{
    /// Returns true if a reader of the old row misses nothing in the new one.
    fn is_same(&self, new: &Self, _look: Look) -> bool {
        self == new
    }

    /// Keeps the late position of the old row, which other late rows keep, too.
    fn keep_late_position(&mut self, _old: &Self, _look: Look) {}
}

impl ComparableRow for JobState {
    /// An expected time may be wrong by one percent, and a late position until the next renewal.
    fn is_same(&self, new: &Self, look: Look) -> bool {
        let (start, new_start) = (self.expected_start.as_ref(), new.expected_start.as_ref());
        let (end, new_end) = (self.expected_end.as_ref(), new.expected_end.as_ref());
        is_same_estimate(start, new_start, look.now)
            && is_same_estimate(end, new_end, look.now)
            && is_same_position(self.position, new.position, look)
            && *self
                == Self {
                    expected_start: self.expected_start.clone(),
                    expected_end: self.expected_end.clone(),
                    position: self.position,
                    ..new.clone()
                }
    }

    fn keep_late_position(&mut self, old: &Self, look: Look) {
        if is_same_position(old.position, self.position, look) {
            self.position = old.position;
        }
    }
}

impl ComparableRow for QueueState {
    /// Decayed usage changes at each moment. It may be wrong by one percent.
    fn is_same(&self, new: &Self, _look: Look) -> bool {
        is_same_usage(&self.decayed_usage, &new.decayed_usage)
            && *self
                == Self {
                    decayed_usage: self.decayed_usage.clone(),
                    decayed_time: self.decayed_time.clone(),
                    ..new.clone()
                }
    }
}

impl ComparableRow for NodeState {}

/// Returns true if a position is the same, or both are late.
fn is_same_position(old: Option<u32>, new: Option<u32>, look: Look) -> bool {
    let is_late = |position: Option<u32>| position.is_some_and(|at| at > EXACT_POSITIONS);
    old == new || !look.renews_positions && is_late(old) && is_late(new)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    const LOOK: Look = Look {
        now: Timestamp::UNIX_EPOCH,
        renews_positions: false,
    };

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn job(start: &str) -> JobState {
        JobState {
            expected_start: Some(Time(time(start))),
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
    fn small_moves_of_decayed_usage_are_no_news() {
        let now = LOOK;
        let old = queue("1000", 1);
        assert!(old.is_same(&queue("1010", 1), now));
        assert!(!old.is_same(&queue("1011", 1), now));
        assert!(!old.is_same(&queue("989", 1), now));
        assert!(!old.is_same(&queue("1000", 2), now));
    }

    #[test]
    fn small_moves_of_an_estimate_are_no_news() {
        let now = Look {
            now: time("2026-01-01T12:00:00Z"),
            ..LOOK
        };
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
        assert!(!old.is_same(&JobState::new("ml", "llm", "default"), now));
        let other = JobState {
            gpus: 8,
            ..old.clone()
        };
        assert!(!old.is_same(&other, now));
    }

    #[test]
    fn first_positions_are_exact_and_later_ones_after_a_renewal() {
        let at = |position| JobState {
            position,
            ..JobState::new("ml", "llm", "default")
        };
        for (old, new, same) in [
            (Some(1), Some(2), false),
            (Some(101), Some(100), false),
            (Some(999), Some(101), true),
            (Some(1), None, false),
            (None, Some(1), false),
            (None, None, true),
        ] {
            assert_eq!(at(old).is_same(&at(new), LOOK), same, "{old:?} {new:?}");
            let renewal = Look {
                renews_positions: true,
                ..LOOK
            };
            assert_eq!(at(old).is_same(&at(new), renewal), old == new);
            let mut kept = at(new);
            kept.keep_late_position(&at(old), LOOK);
            assert_eq!(kept.position == old, same);
        }
    }
}
