//! Times at which the driver looks at gangs without an event.

use std::collections::{BTreeSet, HashMap};

use tokio::time::Instant;
use trellis_gang::key::Key;

/// One time per job: the earliest that was requested.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    order: BTreeSet<(Instant, Key)>,
    times: HashMap<Key, Instant>,
}

impl Alarms {
    /// Sets an alarm for the job, unless it has an earlier one.
    pub(super) fn set(&mut self, job: &Key, at: Instant) {
        if self.times.get(job).is_some_and(|before| *before <= at) {
            return;
        }
        self.clear(job);
        self.order.insert((at, job.clone()));
        self.times.insert(job.clone(), at);
    }

    /// Removes the time of a job that is gone.
    pub(super) fn clear(&mut self, job: &Key) {
        if let Some(before) = self.times.remove(job) {
            self.order.remove(&(before, job.clone()));
        }
    }

    /// Returns the earliest time.
    pub(super) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes a job whose alarm is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Key> {
        let (at, job) = self.order.first()?;
        if *at > now {
            return None;
        }
        let job = job.clone();
        self.clear(&job);
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn earliest_alarm_counts_and_is_taken_once() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
        let mut alarms = Alarms::default();
        for second in [5, 3, 9] {
            alarms.set(&a, at(second));
        }
        alarms.set(&b, at(4));
        assert_eq!(alarms.next(), Some(at(3)));
        assert_eq!(alarms.take_due(at(2)), None);
        assert_eq!(alarms.take_due(at(9)), Some(a.clone()));
        assert_eq!(alarms.take_due(at(9)), Some(b.clone()));
        assert_eq!(alarms.take_due(at(9)), None);
        alarms.set(&b, at(9));
        alarms.clear(&b);
        assert_eq!(alarms.next(), None);
    }
}
