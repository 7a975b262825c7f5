//! The pending gangs: the due gangs in order, and the signals that parked gangs wait for.

use std::collections::BTreeSet;

use crate::gang::Gang;
use crate::ids::{LimitName, QueueName};
use crate::limits::PendingLimits;
use crate::queueing::{Blockage, GangClass, Parking, PendingGangs, Signal, WakeCondition};
use crate::state::GangIdx;
use crate::time::Time;

/// All pending gangs. A due gang waits for its turn. A parked gang waits for a change, which the
/// engine reports with [`Self::raise`].
///
/// INVARIANT: due gangs and parked gangs are pending, and the limits on pending gangs count exactly
/// the pending gangs. A gang that comes or goes raises the signals of its queue and of these
/// limits.
#[derive(Debug, Default)]
pub(super) struct SchedulingQueue {
    pending: PendingGangs,
    parking: Parking,
    limits: PendingLimits,
}

impl SchedulingQueue {
    /// Adds a pending gang and makes it due.
    pub(super) fn insert(&mut self, gang: &Gang, at: GangIdx) {
        self.pending.insert(gang, at);
        for signal in self.limits.insert(gang) {
            self.parking.raise(&signal, 1);
        }
        self.parking.raise(&Signal::Head(gang.queue.clone()), 1);
    }

    /// Removes a gang that is changed, placed or deleted. Does nothing if it is not pending.
    pub(super) fn remove(&mut self, gang: &Gang, at: GangIdx) {
        self.parking.unpark(at);
        if self.pending.remove(gang) {
            for signal in self.limits.remove(gang) {
                self.parking.raise(&signal, 1);
            }
            self.parking.raise(&Signal::Head(gang.queue.clone()), 1);
        }
    }

    /// Makes a gang due, if it is pending.
    pub(super) fn make_due(&mut self, gang: &Gang, at: GangIdx) {
        self.parking.unpark(at);
        self.pending.make_due(gang, at);
    }

    /// Parks a pending gang until `wake`, or until a limit on pending gangs may block it.
    pub(super) fn park(&mut self, gang: &Gang, at: GangIdx, mut wake: WakeCondition) {
        PendingLimits::watch(gang, &mut wake);
        self.parking.park(at, wake);
    }

    /// Raises a signal, and wakes the parked gangs that wait for it.
    pub(super) fn raise(&mut self, signal: &Signal, rise: i128) {
        self.parking.raise(signal, rise);
    }

    /// Raises all these signals.
    pub(super) fn raise_all(&mut self, changes: impl IntoIterator<Item = (Signal, i128)>) {
        for (signal, rise) in changes {
            self.parking.raise(&signal, rise);
        }
    }

    /// Wakes the parked gangs whose alarm time has come.
    pub(super) fn fire_alarms(&mut self, now: Time) {
        self.parking.fire_alarms(now);
    }

    /// Returns the gangs that have been woken since the last call. The caller makes them due.
    pub(super) fn take_woken(&mut self) -> BTreeSet<GangIdx> {
        self.parking.take_woken()
    }

    /// Returns the next alarm of a parked gang.
    pub(super) fn next_alarm(&self) -> Option<Time> {
        self.parking.next_alarm()
    }

    /// Checks that the limits on pending gangs have room for this gang after the gangs before it.
    pub(super) fn check_limits(&self, gang: &Gang) -> Result<(), Box<Blockage>> {
        self.limits.admit(gang)
    }

    /// Returns the number of pending gangs by limit on pending gangs.
    pub(super) fn counts_by_limit(&self) -> impl Iterator<Item = (&LimitName, i128)> {
        self.limits.counts()
    }

    /// Returns the queues in which a gang is due.
    pub(super) fn due_queues(&self, class: GangClass) -> Vec<QueueName> {
        self.pending.due_queues(class)
    }

    /// Returns the due gangs of a queue, in order.
    pub(super) fn due_gangs(&self, class: GangClass, queue: &QueueName) -> Vec<GangIdx> {
        self.pending.due_gangs(class, queue)
    }

    /// Returns the first due gang of a queue.
    pub(super) fn next_due(&self, class: GangClass, queue: &QueueName) -> Option<GangIdx> {
        self.pending.next_due(class, queue)
    }

    /// Takes the first due gang of a queue, to try it. It stays pending.
    pub(super) fn pop_due(&mut self, class: GangClass, queue: &QueueName) -> Option<GangIdx> {
        self.pending.pop_due(class, queue)
    }

    /// Removes a gang from the due gangs after the engine has tried it.
    pub(super) fn clear_due(&mut self, gang: &Gang) {
        self.pending.clear_due(gang);
    }

    /// Returns the pending gangs of a queue, in order.
    pub(super) fn gangs_in_order(&self, queue: &QueueName) -> impl Iterator<Item = GangIdx> {
        self.pending.gangs_in_order(queue)
    }

    /// Returns the number of pending gangs of each queue that has any, without surplus.
    pub(super) fn counts_by_queue(&self) -> impl Iterator<Item = (&QueueName, usize)> {
        self.pending.counts_by_queue()
    }

    /// Returns the number of pending gangs, including surplus.
    pub(super) fn count(&self) -> usize {
        self.pending.count()
    }

    /// Returns the position of a gang in its queue, from 1.
    pub(super) fn position(&self, gang: &Gang) -> Option<usize> {
        self.pending.position(gang)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::GangId;
    use crate::limits::{LimitDraw, LimitUnit};

    fn gang(name: &str, draws: Vec<LimitDraw>) -> Gang {
        let id = GangId::new(format!("ns/{name}"));
        Gang {
            draws,
            ..Gang::new(id, QueueName::new("q"), Vec::new())
        }
    }

    /// A limit of one pending gang.
    fn one_pending() -> Vec<LimitDraw> {
        vec![LimitDraw {
            limit: LimitName::new("l"),
            of: LimitUnit::Waiting,
            max: Some(1),
            refuses: false,
        }]
    }

    fn on(signal: Signal) -> WakeCondition {
        let mut wake = WakeCondition::default();
        wake.on_rise(signal, 1);
        wake
    }

    fn due(queue: &SchedulingQueue) -> Vec<usize> {
        let due = queue.due_gangs(GangClass::Gangs, &QueueName::new("q"));
        due.into_iter().map(GangIdx::at).collect()
    }

    fn woken(queue: &mut SchedulingQueue) -> Vec<usize> {
        queue.take_woken().into_iter().map(GangIdx::at).collect()
    }

    #[test]
    fn removed_gang_is_neither_due_nor_woken_nor_counted() {
        let mut queue = SchedulingQueue::default();
        let (one, at) = (gang("a", one_pending()), GangIdx::of(0));
        queue.insert(&one, at);
        assert_eq!((due(&queue), queue.counts_by_limit().count()), (vec![0], 1));
        queue.pop_due(GangClass::Gangs, &one.queue);
        queue.park(&one, at, on(Signal::Nodes));
        queue.raise(&Signal::Nodes, 1);
        queue.remove(&one, at);
        assert!(woken(&mut queue).is_empty());
        queue.make_due(&one, at);
        assert!(due(&queue).is_empty(), "it is not pending");
        assert_eq!((queue.count(), queue.counts_by_limit().count()), (0, 0));
    }

    #[test]
    fn gang_wakes_when_another_gang_leaves_the_head_or_a_limit_of_its_queue() {
        let mut queue = SchedulingQueue::default();
        let (head, next) = (gang("a", one_pending()), gang("b", one_pending()));
        queue.insert(&head, GangIdx::of(0));
        queue.insert(&next, GangIdx::of(1));
        let Err(full) = queue.check_limits(&next) else {
            panic!("the limit is full");
        };
        queue.park(&next, GangIdx::of(1), full.wake);
        assert!(woken(&mut queue).is_empty());
        queue.remove(&head, GangIdx::of(0));
        assert_eq!(woken(&mut queue), [1]);
        assert!(queue.check_limits(&next).is_ok());
        queue.park(&next, GangIdx::of(1), on(Signal::Head(next.queue.clone())));
        queue.insert(&head, GangIdx::of(0));
        assert_eq!(woken(&mut queue), [1]);
    }

    #[test]
    fn parked_gang_wakes_when_an_earlier_gang_joins_its_limit() {
        let mut queue = SchedulingQueue::default();
        let later = Gang {
            submitted: Time::from_millis(9),
            ..gang("b", one_pending())
        };
        queue.insert(&later, GangIdx::of(1));
        queue.park(&later, GangIdx::of(1), WakeCondition::default());
        queue.insert(&gang("c", Vec::new()), GangIdx::of(2));
        assert!(woken(&mut queue).is_empty());
        queue.insert(&gang("a", one_pending()), GangIdx::of(0));
        assert_eq!(woken(&mut queue), [1]);
    }
}
