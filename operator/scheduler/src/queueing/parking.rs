//! Parking of gangs that cannot start. The engine spends no time on a parked gang until a counter
//! that the gang waits for has risen far enough.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::explain::{
    ProvisioningObstacle, StartDistance, UnblockingChange, WaitDetail, WaitExplanation,
};
use crate::ids::{LimitName, QueueName};
use crate::quota::FlavorResource;
use crate::state::{GangIdx, ResourceIdx};
use crate::time::Time;

/// A counter that parked gangs wait for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Signal {
    /// Changes of nodes.
    Nodes,
    /// Units of a resource that became free, on any node.
    Freed(ResourceIdx),
    /// Units of a resource that pods took, on any node.
    Taken(ResourceIdx),
    /// Changes of topologies.
    Topologies,
    /// Changes of queues and flavors.
    Queues,
    /// Changes of the gang at the head of a queue.
    Head(QueueName),
    /// Changes of reservations for gangs that wait for room.
    Reservations,
    /// Changes of queue usage, which decides the order of turns.
    Turns,
    /// Quota below a root that gangs gave back.
    QuotaFreed(QueueName, FlavorResource),
    /// Quota below a root that the engine charged.
    QuotaTaken(QueueName, FlavorResource),
    /// Queues below a root that begin to hold more than their quota. None: queues without any limit
    /// that begin to hold some of the resource.
    Borrows(Option<QueueName>, FlavorResource),
    /// Units of a limit that gangs gave back.
    LimitFreed(LimitName),
    /// Units of a limit that the engine charged.
    LimitTaken(LimitName),
    /// How often the caller closed or opened a limit.
    Gate(LimitName),
}

/// The condition to try a gang again: one of the counters has risen by the given amount, or the
/// given time has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WakeCondition {
    signals: SmallVec<[(Signal, i128); 4]>,
    at: Option<Time>,
}

impl WakeCondition {
    /// Adds the condition that a counter has risen by `rise`.
    pub(crate) fn on_rise(&mut self, signal: Signal, rise: i128) -> &mut Self {
        self.signals.push((signal, rise.max(1)));
        self
    }

    /// Adds the condition that a counter has risen by `rise`. Keeps only the smallest rise of each
    /// counter.
    pub(crate) fn on_least_rise(&mut self, signal: Signal, rise: i128) -> &mut Self {
        match self.signals.iter_mut().find(|(s, _)| *s == signal) {
            Some((_, least)) => *least = (*least).min(rise.max(1)),
            None => self.signals.push((signal, rise.max(1))),
        }
        self
    }

    /// Returns true if it waits for this counter.
    pub(crate) fn waits_for(&self, signal: &Signal) -> bool {
        self.signals.iter().any(|(s, _)| s == signal)
    }

    /// Adds the conditions of `other`.
    pub(crate) fn merge(&mut self, other: &Self) -> &mut Self {
        for (signal, rise) in &other.signals {
            if !self.signals.contains(&(signal.clone(), *rise)) {
                self.signals.push((signal.clone(), *rise));
            }
        }
        self.at = match (self.at, other.at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self
    }

    /// Adds the condition that this time has come.
    pub(crate) fn at_latest(&mut self, time: Time) -> &mut Self {
        self.at = Some(self.at.map_or(time, |at| at.min(time)));
        self
    }
}

/// The kind of obstacle to a gang, as far as backfill and reservations use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WaitKind {
    /// An obstacle that no reservation removes.
    #[default]
    Other,
    /// The gang lacks quota.
    Quota,
    /// The gang lacks room on nodes.
    Capacity,
    /// The gang lacks only an amount that the engine reserves for another gang.
    Reserved,
}

/// The reason why a gang cannot start, and the condition to try it again.
#[derive(Clone, Debug)]
pub(crate) struct Blockage {
    pub(crate) explanation: WaitExplanation,
    pub(crate) wake: WakeCondition,
    pub(crate) kind: WaitKind,
    /// The number of the flavor assignment that this blockage applies to.
    pub(crate) assignment: usize,
    /// The obstacles to its other flavor assignments.
    other_obstacles: Vec<(WaitKind, usize)>,
}

impl Blockage {
    /// Sets the kind of obstacle.
    pub(crate) fn with_kind(mut self: Box<Self>, phase: WaitKind) -> Box<Self> {
        self.kind = phase;
        self
    }

    /// Sets the change that would let the gang pass.
    pub(crate) fn with_change(mut self: Box<Self>, change: Option<UnblockingChange>) -> Box<Self> {
        self.explanation.change = change.map(Arc::new);
        self
    }

    /// Returns how far the gang is from a start.
    pub(crate) fn distance(&self) -> StartDistance {
        self.explanation.reason.distance()
    }

    /// Returns true if more or other nodes alone would let the gang start.
    pub(crate) fn lacks_only_room(&self) -> bool {
        self.explanation.reason.is_shortage_of_nodes()
    }

    /// True if new nodes are provisioned for the gang after the delay of its queue.
    pub(crate) fn waits_for_provisioning(&self) -> bool {
        let obstacle = self.explanation.provisioning_obstacle.as_deref();
        matches!(obstacle, Some(ProvisioningObstacle::Delay { .. }))
    }

    /// Adds the result of another flavor assignment of the gang.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.wake.merge(&other.wake);
        self.other_obstacles.extend(other.obstacles());
    }

    /// Returns the obstacle to each of its flavor assignments.
    pub(crate) fn obstacles(&self) -> impl Iterator<Item = (WaitKind, usize)> {
        let others = self.other_obstacles.iter().copied();
        std::iter::once((self.kind, self.assignment)).chain(others)
    }

    pub(crate) fn new(detail: WaitDetail, wake: WakeCondition) -> Box<Self> {
        Box::new(Self {
            explanation: detail.into(),
            wake,
            kind: WaitKind::Other,
            assignment: 0,
            other_obstacles: Vec::new(),
        })
    }
}

#[derive(Debug, Default)]
struct Counter {
    count: i128,
    /// Parked gangs, by the count that they wait for.
    parked: BTreeSet<(i128, GangIdx)>,
}

#[derive(Debug, Default)]
struct ParkedGang {
    signals: SmallVec<[(Signal, i128); 4]>,
    at: Option<Time>,
}

/// The parked gangs. A counter exists only while a gang waits for it.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    counters: FxHashMap<Signal, Counter>,
    alarms: BTreeSet<(Time, GangIdx)>,
    tickets: FxHashMap<GangIdx, ParkedGang>,
    woken: BTreeSet<GangIdx>,
}

impl Parking {
    /// Parks a gang.
    pub(crate) fn park(&mut self, gang: GangIdx, wake: WakeCondition) {
        self.unpark(gang);
        let mut ticket = ParkedGang {
            signals: SmallVec::new(),
            at: wake.at,
        };
        for (signal, rise) in wake.signals {
            let counter = self.counters.entry(signal.clone()).or_default();
            let threshold = counter.count.saturating_add(rise);
            counter.parked.insert((threshold, gang));
            ticket.signals.push((signal, threshold));
        }
        if let Some(at) = wake.at {
            self.alarms.insert((at, gang));
        }
        self.tickets.insert(gang, ticket);
    }

    /// Removes a gang from parking, with all its conditions, and from the woken gangs.
    pub(crate) fn unpark(&mut self, gang: GangIdx) {
        self.woken.remove(&gang);
        let Some(ticket) = self.tickets.remove(&gang) else {
            return;
        };
        for (signal, threshold) in ticket.signals {
            if let Some(counter) = self.counters.get_mut(&signal) {
                counter.parked.remove(&(threshold, gang));
                if counter.parked.is_empty() {
                    self.counters.remove(&signal);
                }
            }
        }
        if let Some(at) = ticket.at {
            self.alarms.remove(&(at, gang));
        }
    }

    /// Raises a counter, and wakes the gangs whose threshold it reaches.
    pub(crate) fn raise(&mut self, signal: &Signal, rise: i128) {
        let Some(counter) = self.counters.get_mut(signal) else {
            return;
        };
        counter.count = counter.count.saturating_add(rise.max(0));
        let reached = (counter.count.saturating_add(1), GangIdx::of(0));
        let waiting = counter.parked.split_off(&reached);
        let woken = std::mem::replace(&mut counter.parked, waiting);
        self.wake_gangs(woken.into_iter().map(|(_, gang)| gang));
    }

    /// Advances the time, and wakes the gangs whose alarm time has come.
    pub(crate) fn fire_alarms(&mut self, now: Time) {
        let waiting = match now.as_millis().checked_add(1) {
            Some(next) => self
                .alarms
                .split_off(&(Time::from_millis(next), GangIdx::of(0))),
            None => BTreeSet::new(),
        };
        let woken = std::mem::replace(&mut self.alarms, waiting);
        self.wake_gangs(woken.into_iter().map(|(_, gang)| gang));
    }

    fn wake_gangs(&mut self, gangs: impl Iterator<Item = GangIdx>) {
        for gang in gangs {
            self.unpark(gang);
            self.woken.insert(gang);
        }
    }

    /// Returns the gangs that have been woken since the last call.
    pub(crate) fn take_woken(&mut self) -> BTreeSet<GangIdx> {
        std::mem::take(&mut self.woken)
    }

    /// Returns the next alarm of a parked gang.
    pub(crate) fn next_alarm(&self) -> Option<Time> {
        self.alarms.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freed(resource: usize) -> Signal {
        Signal::Freed(ResourceIdx::of(resource))
    }

    fn gang(at: usize) -> GangIdx {
        GangIdx::of(at)
    }

    fn on(signal: Signal, rise: i128) -> WakeCondition {
        let mut wake = WakeCondition::default();
        wake.on_rise(signal, rise);
        wake
    }

    fn woken(parking: &mut Parking) -> Vec<GangIdx> {
        parking.take_woken().into_iter().collect()
    }

    #[test]
    fn unparked_gang_is_not_woken_later() {
        let mut parking = Parking::default();
        parking.park(gang(0), on(Signal::Nodes, 1));
        parking.raise(&Signal::Nodes, 1);
        parking.unpark(gang(0));
        assert!(
            parking.take_woken().is_empty(),
            "the number may be another's"
        );
    }

    #[test]
    fn gang_wakes_when_the_rises_add_up_and_not_before() {
        let mut parking = Parking::default();
        parking.park(gang(0), on(freed(0), 3));
        parking.raise(&freed(0), 2);
        parking.park(gang(1), on(freed(0), 3));
        assert!(parking.take_woken().is_empty());
        parking.raise(&freed(1), 9);
        assert!(parking.take_woken().is_empty());
        parking.raise(&freed(0), 1);
        assert_eq!(woken(&mut parking), [gang(0)]);
        parking.raise(&freed(0), 2);
        assert_eq!(woken(&mut parking), [gang(1)]);
        assert!(parking.counters.is_empty());
    }

    #[test]
    fn gang_wakes_once_by_the_first_of_its_signals() {
        let mut parking = Parking::default();
        let mut wake = on(Signal::Nodes, 1);
        wake.on_rise(freed(0), 1).at_latest(Time::from_millis(5));
        parking.park(gang(0), wake);
        assert_eq!(parking.next_alarm(), Some(Time::from_millis(5)));
        parking.fire_alarms(Time::from_millis(4));
        assert!(parking.take_woken().is_empty());
        parking.fire_alarms(Time::from_millis(5));
        parking.raise(&Signal::Nodes, 1);
        parking.raise(&freed(0), 1);
        assert_eq!(woken(&mut parking), [gang(0)]);
        assert_eq!(parking.next_alarm(), None);
    }

    #[test]
    fn earliest_of_several_alarms_wakes_the_gang() {
        let mut parking = Parking::default();
        let mut wake = WakeCondition::default();
        wake.at_latest(Time::from_millis(7))
            .at_latest(Time::from_millis(3));
        wake.at_latest(Time::from_millis(9));
        parking.park(gang(0), wake);
        assert_eq!(parking.next_alarm(), Some(Time::from_millis(3)));
    }

    #[test]
    fn largest_time_wakes_all_gangs() {
        let mut parking = Parking::default();
        let mut wake = WakeCondition::default();
        wake.at_latest(Time::from_millis(i64::MAX));
        parking.park(gang(0), wake);
        parking.fire_alarms(Time::from_millis(i64::MAX));
        assert_eq!(woken(&mut parking), [gang(0)]);
    }
}
