//! Forecast of the start of pending gangs and the end of all gangs: the engine plays the current
//! state forward.

use std::collections::{BTreeMap, BTreeSet};

use crate::decision::Decision;
use crate::engine::{Engine, GangSnapshot, PlacedStateSnapshot, Snapshot};
use crate::gang::Gang;
use crate::ids::{GangId, PodKey};
use crate::time::Time;

/// When pending gangs are expected to start, if no new gang arrives and running gangs end on time.
/// A gang without a known end, or past its expected end, keeps its place for ever. Pending surplus
/// is left out because no gang waits for it. Surplus that makes room does not come back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// The first start of each pending gang. A gang that is missing here has no known start.
    pub starts: BTreeMap<GangId, Time>,
    /// The end of each placed gang, and of the first run of each gang that starts: the gang has
    /// either finished its work or been preempted. A gang that is missing here has no known end, or
    /// is past it.
    pub ends: BTreeMap<GangId, Time>,
    /// The forecast was stopped early: more gangs may start, later than those in it.
    pub cut_off: bool,
}

impl Forecast {
    /// Plays a snapshot forward. Calls `go_on` before each moment at which gangs start or end, with
    /// the number of moments before it; false stops the forecast.
    #[must_use]
    pub fn from_snapshot(snapshot: &Snapshot, go_on: impl FnMut(usize) -> bool) -> Self {
        let mut player = ForecastRun::new(snapshot);
        let cut_off = !player.run(go_on);
        Self {
            starts: player.starts,
            ends: player.ends,
            cut_off,
        }
    }
}

/// The next event of a placed gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GangEvent {
    /// It finishes its work.
    End,
    /// It makes room, and is pending again.
    Leave,
}

struct ForecastRun {
    engine: Engine,
    gangs: BTreeMap<GangId, Gang>,
    agenda: BTreeSet<(Time, GangId, GangEvent)>,
    /// The one agenda entry of each gang.
    due: BTreeMap<GangId, (Time, GangEvent)>,
    /// Terminating pods outside any placed gang, by the time at which they should be gone.
    departing_pods: BTreeSet<(Time, PodKey)>,
    starts: BTreeMap<GangId, Time>,
    ends: BTreeMap<GangId, Time>,
    /// Gangs whose first run has been cut short.
    stopped: BTreeSet<GangId>,
    now: Time,
}

impl ForecastRun {
    fn new(snapshot: &Snapshot) -> Self {
        let mut player = Self {
            engine: Engine::from_snapshot(&with_assumed_pods(snapshot)),
            gangs: BTreeMap::new(),
            agenda: BTreeSet::new(),
            due: BTreeMap::new(),
            departing_pods: departing_pods(snapshot),
            starts: BTreeMap::new(),
            ends: BTreeMap::new(),
            stopped: BTreeSet::new(),
            now: snapshot.now,
        };
        let surplus = |told: &&GangSnapshot| told.gang.surplus && told.place.is_none();
        for told in snapshot.gangs.iter().filter(surplus) {
            player.engine.delete_gang(&told.gang.id);
        }
        for told in &snapshot.gangs {
            let gang = &told.gang;
            player.gangs.insert(gang.id.clone(), gang.clone());
            let Some(place) = &told.place else { continue };
            match &place.standing {
                PlacedStateSnapshot::Settled => player.record_start(&gang.id, place.since),
                PlacedStateSnapshot::Leaving { since } => {
                    // The gang runs as before the eviction: its own end may come before it has to
                    // leave.
                    player.record_start(&gang.id, place.since);
                    player.schedule_leave(&gang.id, since.plus(place.gang.grace));
                }
                PlacedStateSnapshot::Nominated => {}
            }
        }
        player
    }

    /// Returns false if there is more to play.
    fn run(&mut self, mut go_on: impl FnMut(usize) -> bool) -> bool {
        for _ in (0..).take_while(|moments| go_on(*moments)) {
            for decision in self.engine.cycle(self.now) {
                self.apply_decision(&decision);
            }
            let alarm = self.engine.next_wakeup().filter(|at| *at > self.now);
            let due = self.agenda.first().map(|(at, ..)| *at);
            let gone = self.departing_pods.first().map(|(at, _)| *at);
            let Some(next) = [alarm, due, gone].into_iter().flatten().min() else {
                return true;
            };
            self.now = self.now.max(next);
            while let Some((at, _)) = self.departing_pods.first()
                && *at <= self.now
                && let Some((_, pod)) = self.departing_pods.pop_first()
            {
                self.engine.delete_pod(&pod);
            }
            while let Some((at, ..)) = self.agenda.first()
                && *at <= self.now
                && let Some((_, gang, what)) = self.agenda.pop_first()
            {
                self.due.remove(&gang);
                let surplus = self.gangs.get(&gang).is_some_and(|gang| gang.surplus);
                match what {
                    GangEvent::Leave if !surplus => self.engine.release_gang(&gang, None),
                    _ => self.engine.delete_gang(&gang),
                }
            }
        }
        false
    }

    fn apply_decision(&mut self, decision: &Decision) {
        match decision {
            Decision::Place { gang, .. } => {
                self.starts.entry(gang.clone()).or_insert(self.now);
                self.record_start(gang, self.now);
            }
            Decision::Preempt { victims, .. } => {
                victims.iter().for_each(|v| self.start_stopping(&v.gang))
            }
            Decision::Drain { victim } => self.start_stopping(&victim.gang),
            Decision::Reserve { .. } | Decision::Wait { .. } => {}
        }
    }

    /// The gang has been placed since `since`.
    fn record_start(&mut self, gang: &GangId, since: Time) {
        let gangs = &self.gangs;
        let end = gangs
            .get(gang)
            .and_then(|g| self.engine.expected_end(g, since, self.now));
        if let Some(end) = end.filter(|end| end.at >= self.now) {
            self.ends.entry(gang.clone()).or_insert(end.at);
        }
        self.schedule(gang, end.map(|end| (end.at, GangEvent::End)));
    }

    /// The gang is told to stop and has its grace period to do so.
    fn start_stopping(&mut self, gang: &GangId) {
        let grace = self.gangs.get(gang).map(|g| g.grace).unwrap_or_default();
        self.schedule_leave(gang, self.now.plus(grace));
    }

    /// The gang leaves at `by`, however long it would have run.
    fn schedule_leave(&mut self, gang: &GangId, by: Time) {
        // Only the first run counts: the recorded end of an earlier run stays.
        if self.stopped.insert(gang.clone()) {
            let first = self.ends.get(gang).map_or(by, |end| by.min(*end));
            match first >= self.now {
                true => self.ends.insert(gang.clone(), first),
                false => self.ends.remove(gang),
            };
        }
        self.schedule(gang, Some((by, GangEvent::Leave)));
    }

    fn schedule(&mut self, gang: &GangId, next: Option<(Time, GangEvent)>) {
        if let Some((at, what)) = self.due.remove(gang) {
            self.agenda.remove(&(at, gang.clone(), what));
        }
        // An end in the past tells nothing: the gang has no known end.
        if let Some((at, what)) = next.filter(|(at, _)| *at >= self.now) {
            self.agenda.insert((at, gang.clone(), what));
            self.due.insert(gang.clone(), (at, what));
        }
    }
}

/// Terminating pods that belong to no gang. A pod that should be gone by now has no known end.
fn departing_pods(snapshot: &Snapshot) -> BTreeSet<(Time, PodKey)> {
    let pods = snapshot.pods.iter().filter(|pod| !pod.held);
    pods.filter_map(|pod| Some((pod.leaves?, pod.pod.clone())))
        .filter(|(at, _)| *at >= snapshot.now)
        .collect()
}

/// The snapshot with the pods of placed gangs counted as not yet created: they leave with their
/// gang.
fn with_assumed_pods(snapshot: &Snapshot) -> Snapshot {
    let mut snapshot = snapshot.clone();
    snapshot.pods.retain(|pod| !pod.held);
    for place in snapshot.gangs.iter_mut().filter_map(|g| g.place.as_mut()) {
        place.settled.iter_mut().for_each(Vec::clear);
    }
    snapshot
}
