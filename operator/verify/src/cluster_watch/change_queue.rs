//! Changes that wait for earlier changes of other kinds.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use crate::Change;

/// Changes by revision and order of arrival.
#[derive(Debug, Default)]
pub(crate) struct ChangeQueue {
    waiting: BTreeMap<(u64, u64), Change>,
    arrivals: u64,
}

impl ChangeQueue {
    pub(crate) fn add(&mut self, change: Change) {
        self.arrivals = self.arrivals.saturating_add(1);
        self.waiting
            .insert((change.revision, self.arrivals), change);
    }

    /// Removes the changes that arrived until `time`, and all changes of lower revisions. Returns
    /// them in the order of their revisions.
    pub(crate) fn take_until(&mut self, time: Timestamp) -> Vec<Change> {
        let mut latest_first = self.waiting.iter().rev();
        let Some((&last, _)) = latest_first.find(|(_, change)| change.time <= time) else {
            return Vec::new();
        };
        let after = self.waiting.split_off(&last);
        let mut due = std::mem::replace(&mut self.waiting, after);
        due.extend(self.waiting.remove_entry(&last));
        due.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Node;

    use super::*;
    use crate::{ObjectVersion, Version};

    fn change(second: i64, revision: u64) -> Change {
        Change {
            time: Timestamp::from_second(second).unwrap(),
            revision,
            object: ObjectVersion::Node(Version::Stored(Arc::new(Node::default()))),
            is_listed: false,
        }
    }

    /// Returns the revisions of the changes that are taken until this second.
    fn take(queue: &mut ChangeQueue, second: i64) -> Vec<u64> {
        let due = queue.take_until(Timestamp::from_second(second).unwrap());
        due.iter().map(|change| change.revision).collect()
    }

    #[test]
    fn changes_leave_in_the_order_of_their_revisions() {
        let mut queue = ChangeQueue::default();
        for (second, revision) in [(1, 7), (2, 5), (2, 6), (4, 9)] {
            queue.add(change(second, revision));
        }
        assert!(take(&mut queue, 0).is_empty());
        assert_eq!(take(&mut queue, 3), [5, 6, 7]);
        assert!(take(&mut queue, 3).is_empty());
        assert_eq!(take(&mut queue, 4), [9]);
    }

    #[test]
    fn late_change_leaves_with_the_later_revision_that_is_due() {
        let mut queue = ChangeQueue::default();
        queue.add(change(1, 8));
        // The watch of another kind brings an earlier revision after it.
        queue.add(change(2, 3));
        queue.add(change(2, 9));
        assert_eq!(take(&mut queue, 1), [3, 8]);
        assert_eq!(take(&mut queue, 2), [9]);
    }

    #[test]
    fn changes_of_one_revision_leave_in_the_order_of_their_arrival() {
        let mut queue = ChangeQueue::default();
        for second in [2, 1, 3] {
            queue.add(change(second, 4));
        }
        let due = queue.take_until(Timestamp::from_second(3).unwrap());
        let seconds: Vec<i64> = due.iter().map(|change| change.time.as_second()).collect();
        assert_eq!(seconds, [2, 1, 3]);
    }
}
