//! When gangs that wait are expected to start, and when all of them to end: what is
//! known now, played forward by the engine itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::decision::Decision;
use crate::engine::{Engine, GangSnapshot, Snapshot, StandingSnapshot};
use crate::gang::Gang;
use crate::ids::{GangId, PodKey};
use crate::time::Time;

/// When gangs that wait are expected to start, if nothing comes any more and
/// whatever runs ends when it should. What has no end that is known keeps its
/// place for ever, as does what is past its end. Surplus that waits is left out, since it
/// keeps nobody waiting, and what makes room does not come back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// The first start of each gang that waits. Who is not in it is not known to start.
    pub starts: BTreeMap<GangId, Time>,
    /// The end of what runs now, and of the first run of each gang that starts, whether it has
    /// done its work then or made room for another. Who is not in it has no end that is known,
    /// or is past it.
    pub ends: BTreeMap<GangId, Time>,
    /// It was not played to its end: more gangs may start, later than those in it.
    pub cut_off: bool,
}

impl Forecast {
    /// Plays forward what a snapshot tells. Before each moment at which somebody
    /// starts or ends `go_on` is asked, with the number of those before.
    #[must_use]
    pub fn of(snapshot: &Snapshot, go_on: impl FnMut(usize) -> bool) -> Self {
        let mut player = Player::new(snapshot);
        let cut_off = !player.play(go_on);
        Self {
            starts: player.starts,
            ends: player.ends,
            cut_off,
        }
    }
}

/// What happens to a gang that has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// It has done its work.
    End,
    /// It has made room, and waits again.
    Leave,
}

struct Player {
    engine: Engine,
    gangs: BTreeMap<GangId, Gang>,
    agenda: BTreeSet<(Time, GangId, What)>,
    /// What is on the agenda, by gang: one thing each.
    due: BTreeMap<GangId, (Time, What)>,
    /// Pods that are no placed gang's and on the way out, by when they are to be gone.
    departing: BTreeSet<(Time, PodKey)>,
    starts: BTreeMap<GangId, Time>,
    ends: BTreeMap<GangId, Time>,
    /// Those whose first run has been cut short.
    stopped: BTreeSet<GangId>,
    now: Time,
}

impl Player {
    fn new(snapshot: &Snapshot) -> Self {
        let mut player = Self {
            engine: Engine::from_snapshot(&assumed(snapshot)),
            gangs: BTreeMap::new(),
            agenda: BTreeSet::new(),
            due: BTreeMap::new(),
            departing: departing(snapshot),
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
                StandingSnapshot::Settled => player.runs(&gang.id, place.since),
                StandingSnapshot::Leaving { since } => {
                    // What it was when it was told to go. Its own end may come before.
                    player.runs(&gang.id, place.since);
                    player.leaves(&gang.id, since.plus(place.gang.grace));
                }
                StandingSnapshot::Nominated => {}
            }
        }
        player
    }

    /// False: there is more to play.
    fn play(&mut self, mut go_on: impl FnMut(usize) -> bool) -> bool {
        for _ in (0..).take_while(|moments| go_on(*moments)) {
            for decision in self.engine.cycle(self.now) {
                self.carry_out(&decision);
            }
            let alarm = self.engine.next_wakeup().filter(|at| *at > self.now);
            let due = self.agenda.first().map(|(at, ..)| *at);
            let gone = self.departing.first().map(|(at, _)| *at);
            let Some(next) = [alarm, due, gone].into_iter().flatten().min() else {
                return true;
            };
            self.now = self.now.max(next);
            while let Some((at, _)) = self.departing.first()
                && *at <= self.now
                && let Some((_, pod)) = self.departing.pop_first()
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
                    What::Leave if !surplus => self.engine.release_gang(&gang, None),
                    _ => self.engine.delete_gang(&gang),
                }
            }
        }
        false
    }

    fn carry_out(&mut self, decision: &Decision) {
        match decision {
            Decision::Place { gang, .. } => {
                self.starts.entry(gang.clone()).or_insert(self.now);
                self.runs(gang, self.now);
            }
            Decision::Preempt { victims, .. } => victims.iter().for_each(|v| self.stops(&v.gang)),
            Decision::Drain { victim } => self.stops(&victim.gang),
            Decision::Reserve { .. } | Decision::Wait { .. } => {}
        }
    }

    /// It has had its place since then.
    fn runs(&mut self, gang: &GangId, since: Time) {
        let gangs = &self.gangs;
        let end = gangs
            .get(gang)
            .and_then(|g| self.engine.end(g, since, self.now));
        if let Some(end) = end.filter(|end| end.at >= self.now) {
            self.ends.entry(gang.clone()).or_insert(end.at);
        }
        self.happens(gang, end.map(|end| (end.at, What::End)));
    }

    /// It is told to stop, and has its grace for that.
    fn stops(&mut self, gang: &GangId) {
        let grace = self.gangs.get(gang).map(|g| g.grace).unwrap_or_default();
        self.leaves(gang, self.now.plus(grace));
    }

    /// It is gone by then, whatever it would have run for.
    fn leaves(&mut self, gang: &GangId, by: Time) {
        // What was told of a run before stays.
        if self.stopped.insert(gang.clone()) {
            let first = self.ends.get(gang).map_or(by, |end| by.min(*end));
            match first >= self.now {
                true => self.ends.insert(gang.clone(), first),
                false => self.ends.remove(gang),
            };
        }
        self.happens(gang, Some((by, What::Leave)));
    }

    fn happens(&mut self, gang: &GangId, next: Option<(Time, What)>) {
        if let Some((at, what)) = self.due.remove(gang) {
            self.agenda.remove(&(at, gang.clone(), what));
        }
        // What should have ended by now is not known to end.
        if let Some((at, what)) = next.filter(|(at, _)| *at >= self.now) {
            self.agenda.insert((at, gang.clone(), what));
            self.due.insert(gang.clone(), (at, what));
        }
    }
}

/// Pods that leave by themselves. What should have gone by now is not known to go.
fn departing(snapshot: &Snapshot) -> BTreeSet<(Time, PodKey)> {
    let pods = snapshot.pods.iter().filter(|pod| !pod.held);
    pods.filter_map(|pod| Some((pod.leaves?, pod.pod.clone())))
        .filter(|(at, _)| *at >= snapshot.now)
        .collect()
}

/// The same, with pods of gangs that are there counted as ones that are still to
/// come: they go with their gang.
fn assumed(snapshot: &Snapshot) -> Snapshot {
    let mut snapshot = snapshot.clone();
    snapshot.pods.retain(|pod| !pod.held);
    for place in snapshot.gangs.iter_mut().filter_map(|g| g.place.as_mut()) {
        place.settled.iter_mut().for_each(Vec::clear);
    }
    snapshot
}
