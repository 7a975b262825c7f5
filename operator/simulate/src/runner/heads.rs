//! How long those at the heads of their queues wait.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trellis_scheduler::{Gang, GangId, QueueName, Time};

/// The order of a queue: priority, submission, name.
type Place = (Reverse<i32>, Time, GangId);

/// The pending jobs of each queue, and since when its head has been the head.
#[derive(Debug, Default)]
pub(super) struct Heads {
    lines: BTreeMap<QueueName, BTreeSet<Place>>,
    heads: BTreeMap<QueueName, (GangId, Time)>,
    /// Queues in which a job was added or removed since the heads were last looked at.
    touched: BTreeSet<QueueName>,
    longest: Duration,
}

fn place(gang: &Gang) -> Place {
    (Reverse(gang.priority), gang.submitted, gang.id.clone())
}

impl Heads {
    /// Adds a pending gang to its queue.
    pub(super) fn wait(&mut self, gang: &Gang) {
        let line = self.lines.entry(gang.queue.clone()).or_default();
        line.insert(place(gang));
        self.touched.insert(gang.queue.clone());
    }

    /// Removes a gang from its queue.
    pub(super) fn leave(&mut self, gang: &Gang) {
        if let Some(line) = self.lines.get_mut(&gang.queue) {
            line.remove(&place(gang));
            self.touched.insert(gang.queue.clone());
        }
    }

    /// All that happens now has happened.
    pub(super) fn look(&mut self, now: Time) {
        for queue in std::mem::take(&mut self.touched) {
            let head = self.lines.get(&queue).and_then(BTreeSet::first);
            let before = self.heads.get(&queue);
            if before.map(|(id, _)| id) == head.map(|(_, _, id)| id) {
                continue;
            }
            if let Some((_, since)) = before {
                self.longest = self.longest.max(now.since(*since));
            }
            match head {
                Some((_, _, id)) => self.heads.insert(queue, (id.clone(), now)),
                None => self.heads.remove(&queue),
            };
        }
    }

    /// The longest time that a job has been head of its queue, including those that still are.
    pub(super) fn longest(&self, now: Time) -> Duration {
        let still = self.heads.values().map(|(_, since)| now.since(*since));
        still.fold(self.longest, Duration::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_counts_from_when_it_became_one() {
        let gang = |name: &str, at| Gang {
            submitted: Time::from_millis(at),
            ..Gang::new(GangId::new(name), QueueName::new("q"), vec![])
        };
        let (a, b) = (gang("x/a", 0), gang("x/b", 5));
        let mut heads = Heads::default();
        heads.wait(&a);
        heads.look(Time::from_millis(0));
        heads.wait(&b);
        heads.look(Time::from_millis(5));
        heads.leave(&a);
        heads.look(Time::from_millis(30));
        assert_eq!(heads.longest(Time::from_millis(40)).as_millis(), 30);
        assert_eq!(heads.longest(Time::from_millis(90)).as_millis(), 60);
        heads.leave(&b);
        heads.look(Time::from_millis(50));
        assert_eq!(heads.longest(Time::from_millis(90)).as_millis(), 30);
        // A job that starts at once never was a head.
        heads.wait(&b);
        heads.leave(&b);
        heads.look(Time::from_millis(99));
        assert_eq!(heads.longest(Time::from_millis(99)).as_millis(), 30);
    }
}
