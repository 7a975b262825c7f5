//! Forecast of the start of pending gangs and the end of all gangs. An engine simulates the future
//! from the current state.

mod backlog;

use std::collections::{BTreeMap, BTreeSet};

use backlog::Backlog;

use crate::decision::Decision;
use crate::engine::{Engine, GangSnapshot, PlacedStateSnapshot, Snapshot};
use crate::gang::Gang;
use crate::ids::{FlavorName, GangId, NodeName, PodKey};
use crate::provisioning::FlavorGrowth;
use crate::time::Time;

/// About as many pending gangs compete for room at a time. More than 32 demands make it more.
const MAX_COMPETITORS: usize = 128;

/// The expected start times of pending gangs, if no new gang arrives and running gangs end on time.
/// A gang without a known end, or past its expected end, keeps its place for ever. The forecast
/// leaves out pending surplus because no gang waits for it. Surplus that makes room does not come
/// back.
///
/// Only the first of many pending gangs with the same queue and demand compete for room. The next
/// one competes when one of them starts. So a gang far behind that would start early because its run
/// is short has a later time here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// The first start of each pending gang. A gang that is missing here has no known start.
    pub starts: BTreeMap<GangId, Time>,
    /// The end of each placed gang, and of the first run of each gang that starts. At this time the
    /// gang has finished its work, or is preempted. A gang that is missing here has no known end,
    /// or is past it.
    pub ends: BTreeMap<GangId, Time>,
    /// Gangs whose run ends before their work does, because they make room.
    pub stopped: BTreeSet<GangId>,
    /// The first moment that the forecast did not simulate, because it stopped early: more gangs may
    /// start from then on, and gangs may have to leave. None: it simulated all moments.
    pub cut_off: Option<Time>,
}

impl Forecast {
    /// Simulates the future from a snapshot. Calls `go_on` before each moment at which gangs start
    /// or end, with the number of earlier moments. False stops the forecast.
    #[must_use]
    pub fn from_snapshot(snapshot: &Snapshot, go_on: impl FnMut(usize) -> bool) -> Self {
        Self::with_competitors(snapshot, MAX_COMPETITORS, go_on)
    }

    /// Like [`Self::from_snapshot`], but about `max` pending gangs compete for room at a time. At least
    /// four of each demand compete.
    #[must_use]
    pub fn with_competitors(
        snapshot: &Snapshot,
        max: usize,
        go_on: impl FnMut(usize) -> bool,
    ) -> Self {
        let mut player = ForecastRun::new(snapshot);
        let is_whole = player.run(max, go_on);
        Self {
            starts: player.starts,
            ends: player.ends,
            stopped: player.stopped,
            cut_off: (!is_whole).then_some(player.now),
        }
    }
}

/// The next event of a placed gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GangEvent {
    /// The gang finishes its work.
    End,
    /// The gang makes room, and is pending again.
    Leave,
}

struct ForecastRun {
    engine: Engine,
    gangs: BTreeMap<GangId, Gang>,
    backlog: Backlog,
    agenda: BTreeSet<(Time, GangId, GangEvent)>,
    /// The entry of each gang in `agenda`.
    due: BTreeMap<GangId, (Time, GangEvent)>,
    /// Terminating pods outside any placed gang, by the time at which they should be gone.
    departing_pods: BTreeSet<(Time, PodKey)>,
    starts: BTreeMap<GangId, Time>,
    ends: BTreeMap<GangId, Time>,
    /// Gangs that had to leave before their work ended.
    stopped: BTreeSet<GangId>,
    /// The flavors whose new nodes have a known arrival.
    growths: BTreeMap<FlavorName, FlavorGrowth>,
    /// The flavors of the nodes that will arrive, by time and number.
    arrivals: BTreeMap<(Time, usize), FlavorName>,
    new_node_count: usize,
    now: Time,
}

impl ForecastRun {
    fn new(snapshot: &Snapshot) -> Self {
        let simplified = simplify(snapshot);
        let growths = simplified.flavors.iter().filter_map(|flavor| {
            let growth = flavor.growth.clone()?;
            Some((flavor.name.clone(), growth))
        });
        let mut player = Self {
            engine: Engine::from_snapshot(&simplified).without_change_search(),
            gangs: BTreeMap::new(),
            backlog: Backlog::new(snapshot),
            agenda: BTreeSet::new(),
            due: BTreeMap::new(),
            departing_pods: departing_pods(snapshot),
            starts: BTreeMap::new(),
            ends: BTreeMap::new(),
            stopped: BTreeSet::new(),
            growths: growths.collect(),
            arrivals: BTreeMap::new(),
            new_node_count: 0,
            now: snapshot.now,
        };
        let surplus = |gang_snapshot: &&GangSnapshot| {
            gang_snapshot.gang.surplus && gang_snapshot.place.is_none()
        };
        for gang_snapshot in snapshot.gangs.iter().filter(surplus) {
            player.engine.delete_gang(&gang_snapshot.gang.id);
        }
        for gang_snapshot in &snapshot.gangs {
            let gang = &gang_snapshot.gang;
            let mut known = gang.clone();
            known.preempted |= gang_snapshot.preempted;
            player.gangs.insert(gang.id.clone(), known);
            if let Some(provisioning) = &gang_snapshot.provisioning {
                let state = &provisioning.state;
                player.schedule_nodes(state.since, &state.missing);
            }
            let Some(place) = &gang_snapshot.place else {
                continue;
            };
            match &place.standing {
                PlacedStateSnapshot::Settled => player.record_start(&gang.id, place.since),
                PlacedStateSnapshot::Leaving { since } => {
                    // The gang runs as before the eviction. Its work may end before it has to
                    // leave.
                    player.record_start(&gang.id, place.since);
                    player.schedule_leave(&gang.id, since.plus(place.gang.grace));
                }
                PlacedStateSnapshot::Nominated => {}
            }
        }
        player
    }

    /// Runs the simulation, in which about `max` gangs compete at a time. Returns false if more moments
    /// remain.
    fn run(&mut self, max: usize, mut go_on: impl FnMut(usize) -> bool) -> bool {
        for moments in (0..).take_while(|moments| go_on(*moments)) {
            self.decide();
            if moments == 0 {
                self.backlog.hold_back(&mut self.engine, max);
            }
            let alarm = self.engine.next_wakeup().filter(|at| *at > self.now);
            let due = self.agenda.first().map(|(at, ..)| *at);
            let gone = self.departing_pods.first().map(|(at, _)| *at);
            let nodes = self.arrivals.first_key_value().map(|((at, _), _)| *at);
            let Some(next) = [alarm, due, gone, nodes].into_iter().flatten().min() else {
                return true;
            };
            self.now = self.now.max(next);
            self.add_arrived_nodes();
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

    /// Starts gangs, and those that compete after them, until no gang starts.
    fn decide(&mut self) {
        loop {
            let mut next = Vec::new();
            for decision in self.engine.cycle(self.now) {
                self.apply_decision(&decision);
                if let Decision::Place { gang, .. } = &decision {
                    next.extend(self.backlog.next_after(gang));
                }
            }
            if next.is_empty() {
                return;
            }
            for gang in next.iter().filter_map(|gang| self.gangs.get(gang)) {
                self.engine.apply_gang(gang.clone());
            }
        }
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
            Decision::Provision(request) => self.schedule_nodes(self.now, &request.nodes),
            Decision::EndProvisioning { .. } | Decision::Reserve { .. } | Decision::Wait { .. } => {
            }
        }
    }

    /// Schedules the arrival of nodes that have been provisioned since `since`.
    fn schedule_nodes(&mut self, since: Time, nodes: &BTreeMap<FlavorName, u32>) {
        for (flavor, count) in nodes {
            let Some(usual) = self.growths.get(flavor).and_then(|growth| growth.usual) else {
                continue;
            };
            let at = since.plus(usual).max(self.now.plus_millis(1));
            for _ in 0..*count {
                self.new_node_count = self.new_node_count.saturating_add(1);
                self.arrivals
                    .insert((at, self.new_node_count), flavor.clone());
            }
        }
    }

    /// Adds the nodes that arrive by now.
    fn add_arrived_nodes(&mut self) {
        while let Some(first) = self.arrivals.first_entry()
            && first.key().0 <= self.now
        {
            let ((_, number), flavor) = first.remove_entry();
            let Some(growth) = self.growths.get(&flavor) else {
                continue;
            };
            let name = NodeName::new(format!("{}-new-{number}", flavor.as_str()));
            self.engine.apply_node(growth.node.to_node(name));
        }
    }

    /// Records that a gang has been placed since `since`, and schedules its end.
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

    /// Stops a gang, which leaves at the end of its grace period.
    fn start_stopping(&mut self, gang: &GangId) {
        let grace = self.gangs.get(gang).map(|g| g.grace).unwrap_or_default();
        self.schedule_leave(gang, self.now.plus(grace));
    }

    /// Schedules a gang to leave at `by`, instead of at the end of its work.
    fn schedule_leave(&mut self, gang: &GangId, by: Time) {
        // Only the first run counts, so the recorded end of an earlier run stays.
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
        // If the end is in the past, the gang has no known end.
        if let Some((at, what)) = next.filter(|(at, _)| *at >= self.now) {
            self.agenda.insert((at, gang.clone(), what));
            self.due.insert(gang.clone(), (at, what));
        }
    }
}

/// Returns the terminating pods that belong to no gang. A pod that should be gone by now has no
/// known end.
fn departing_pods(snapshot: &Snapshot) -> BTreeSet<(Time, PodKey)> {
    let pods = snapshot.pods.iter().filter(|pod| !pod.held);
    pods.filter_map(|pod| Some((pod.leaves?, pod.pod.clone())))
        .filter(|(at, _)| *at >= snapshot.now)
        .collect()
}

/// Returns the snapshot with pods that leave with their gang. Flavors whose new nodes take an unknown
/// time get none.
fn simplify(snapshot: &Snapshot) -> Snapshot {
    let mut snapshot = snapshot.clone();
    for flavor in &mut snapshot.flavors {
        let growth = flavor.growth.take();
        flavor.growth = growth.filter(|growth| growth.usual.is_some());
    }
    snapshot.bind_pods_to_gangs();
    snapshot
}
