//! Measures how long jobs wait at the heads of their queues.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trellis_scheduler::{Gang, GangId, QueueName, Time};

/// The order of a queue: priority, submission, name.
type QueueOrderKey = (Reverse<i32>, Time, GangId);

/// The pending jobs of each queue, and since when its head has been the head.
#[derive(Debug, Default)]
pub(in crate::runner) struct HeadWaits {
    pending: BTreeMap<QueueName, BTreeSet<QueueOrderKey>>,
    heads: BTreeMap<QueueName, (GangId, Time)>,
    /// Queues in which a job was added or removed since the last update of the heads.
    changed_queues: BTreeSet<QueueName>,
    longest_wait: Duration,
}

fn order_key(gang: &Gang) -> QueueOrderKey {
    (Reverse(gang.priority), gang.submitted, gang.id.clone())
}

impl HeadWaits {
    /// Adds a pending gang to its queue.
    pub(in crate::runner) fn add_pending(&mut self, gang: &Gang) {
        let line = self.pending.entry(gang.queue.clone()).or_default();
        line.insert(order_key(gang));
        self.changed_queues.insert(gang.queue.clone());
    }

    /// Removes a gang from its queue.
    pub(in crate::runner) fn remove_pending(&mut self, gang: &Gang) {
        if let Some(line) = self.pending.get_mut(&gang.queue) {
            line.remove(&order_key(gang));
            self.changed_queues.insert(gang.queue.clone());
        }
    }

    /// Updates the heads after all events of this time.
    pub(in crate::runner) fn update_heads(&mut self, now: Time) {
        for queue in std::mem::take(&mut self.changed_queues) {
            let head = self.pending.get(&queue).and_then(BTreeSet::first);
            let before = self.heads.get(&queue);
            if before.map(|(id, _)| id) == head.map(|(_, _, id)| id) {
                continue;
            }
            if let Some((_, since)) = before {
                self.longest_wait = self.longest_wait.max(now.since(*since));
            }
            match head {
                Some((_, _, id)) => self.heads.insert(queue, (id.clone(), now)),
                None => self.heads.remove(&queue),
            };
        }
    }

    /// Returns the longest time that a job was head of its queue, including current heads.
    pub(in crate::runner) fn longest_wait(&self, now: Time) -> Duration {
        let still = self.heads.values().map(|(_, since)| now.since(*since));
        still.fold(self.longest_wait, Duration::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_wait_starts_when_the_job_becomes_head() {
        let gang = |name: &str, at| Gang {
            submitted: Time::from_millis(at),
            ..Gang::new(GangId::new(name), QueueName::new("q"), vec![])
        };
        let (a, b) = (gang("x/a", 0), gang("x/b", 5));
        let mut heads = HeadWaits::default();
        heads.add_pending(&a);
        heads.update_heads(Time::from_millis(0));
        heads.add_pending(&b);
        heads.update_heads(Time::from_millis(5));
        heads.remove_pending(&a);
        heads.update_heads(Time::from_millis(30));
        assert_eq!(heads.longest_wait(Time::from_millis(40)).as_millis(), 30);
        assert_eq!(heads.longest_wait(Time::from_millis(90)).as_millis(), 60);
        heads.remove_pending(&b);
        heads.update_heads(Time::from_millis(50));
        assert_eq!(heads.longest_wait(Time::from_millis(90)).as_millis(), 30);
        // A job that starts at once was never a head.
        heads.add_pending(&b);
        heads.remove_pending(&b);
        heads.update_heads(Time::from_millis(99));
        assert_eq!(heads.longest_wait(Time::from_millis(99)).as_millis(), 30);
    }
}
