//! Moves that would let a gang start if the free capacity is fragmented: running gangs that have room
//! on other nodes. The engine moves no gang.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::{Engine, PlaceSnapshot, PlacedStateSnapshot, Snapshot};
use crate::gang::Gang;
use crate::ids::{GangId, NodeName};
use crate::placement::Placement;
use crate::time::Time;
use crate::topology::TopologyRequest;

/// Maximum number of gangs that move together.
const MAX_MOVES: usize = 8;

/// Maximum number of gangs that the search removes together, to find which of them must move.
const MAX_LIFTED: usize = 64;

/// Maximum number of placements of the waiting gang that a search tries.
const MAX_TRIES: usize = 64;

/// A running gang that would leave its nodes to a waiting gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangMove {
    /// The gang.
    pub gang: GangId,
    /// Where it has room once the waiting gang has its place.
    pub placement: Placement,
    /// The work since its last checkpoint, or since it was placed.
    pub lost_device_seconds: u64,
}

/// Returns running gangs that have room on other nodes, and whose moves give a waiting gang its
/// place. All of these moves are needed. The search tries sets of gangs, those with the least lost
/// work first, and returns the first set that suffices. Only preemptible gangs move that `may_move`
/// accepts, and no surplus. Empty: the gang can start without moves, or the search, whose work is
/// bounded, finds none.
#[must_use]
pub fn find_moves(
    snapshot: &Snapshot,
    gang: &GangId,
    may_move: impl Fn(&GangId) -> bool,
) -> Vec<GangMove> {
    let Some(waiting) = snapshot.gangs.iter().find(|g| g.gang.id == *gang) else {
        return Vec::new();
    };
    if waiting.place.is_some() {
        return Vec::new();
    }
    let waiting = waiting.gang.clone();
    let mut search = MoveSearch::new(snapshot, waiting, may_move);
    if search.try_to_start().is_some() {
        return Vec::new();
    }
    let sets = search.sets();
    for set in &sets {
        if let Some(moves) = search.try_moves(set) {
            return moves;
        }
        if search.tries >= MAX_TRIES {
            break;
        }
    }
    Vec::new()
}

/// A placed gang that may move.
#[derive(Clone, Debug)]
struct Movable {
    place: Arc<PlaceSnapshot>,
    devices: u64,
    lost_device_seconds: u64,
}

/// The part of the cluster that a node belongs to: its domain of the level that the waiting gang
/// requires, or else the node alone.
type Area = BTreeMap<String, String>;

struct MoveSearch {
    /// The placed gangs, without the waiting ones.
    engine: Engine,
    waiting: Gang,
    movable: Vec<Movable>,
    now: Time,
    tries: usize,
}

impl MoveSearch {
    fn new(snapshot: &Snapshot, waiting: Gang, accepts: impl Fn(&GangId) -> bool) -> Self {
        let mut placed = snapshot.clone();
        // Kept places and nodes on order stay closed to the waiting gang.
        placed.gangs.retain(|gang| {
            gang.place.is_some() || gang.kept.is_some() || gang.provisioning.is_some()
        });
        placed.bind_pods_to_gangs();
        let places = placed.gangs.iter().filter_map(|gang| gang.place.as_ref());
        let places = places.filter(|place| is_movable(place) && accepts(&place.gang.id));
        let engine = Engine::from_snapshot(&placed);
        let movable = places.filter_map(|place| {
            let stake = engine.stake(&place.gang.id)?;
            Some(Movable {
                devices: stake.devices,
                lost_device_seconds: stake.lost_device_seconds(snapshot.now),
                place: Arc::new(place.clone()),
            })
        });
        Self {
            movable: movable.collect(),
            engine,
            waiting,
            now: snapshot.now,
            tries: 0,
        }
    }

    /// Returns sets of numbers of gangs. Each set has all movable gangs of one area. The sets with the
    /// least lost work come first, and unions of sets come last.
    fn sets(&self) -> Vec<Vec<usize>> {
        let mut by_area: BTreeMap<Area, Vec<usize>> = BTreeMap::new();
        for (number, movable) in self.movable.iter().enumerate() {
            let groups = movable.place.placement.groups().iter();
            for (node, _) in groups.flat_map(|group| &group.runs) {
                let Some(area) = self.area(node) else {
                    continue;
                };
                let numbers = by_area.entry(area).or_default();
                if numbers.last() != Some(&number) {
                    numbers.push(number);
                }
            }
        }
        let lost = |set: &Vec<usize>| {
            let all = set.iter().filter_map(|number| self.movable.get(*number));
            all.fold(0_u64, |sum, movable| {
                sum.saturating_add(movable.lost_device_seconds)
            })
        };
        let mut sets: Vec<Vec<usize>> = by_area.into_values().collect();
        sets.retain(|set| set.len() <= MAX_LIFTED);
        sets.sort_by_cached_key(|set| (lost(set), set.len()));
        let mut unions: Vec<Vec<usize>> = Vec::new();
        for set in &sets {
            let mut union = unions.last().cloned().unwrap_or_default();
            union.extend(set);
            union.sort_unstable();
            union.dedup();
            if union.len() > MAX_LIFTED {
                break;
            }
            unions.push(union);
        }
        sets.extend(unions.into_iter().skip(1));
        sets.dedup();
        sets
    }

    fn area(&self, node: &NodeName) -> Option<Area> {
        match self.required_level() {
            Some(level) => self.engine.domain_labels(level, node),
            None => Some([(String::new(), node.as_str().to_owned())].into()),
        }
    }

    /// Returns the level of the first topology request that requires one domain: of the gang, of a
    /// task group, or of a slice layer.
    fn required_level(&self) -> Option<&str> {
        let groups = self.waiting.groups.iter();
        let of_groups = groups.clone().filter_map(|group| group.topology.as_ref());
        let requests = self.waiting.topology.iter().chain(of_groups);
        let mut requests = requests.filter(|request| !request.is_node_level());
        let slices = groups.filter_map(|group| group.slices.first());
        let mut slices = slices.map(|layer| layer.level.as_str());
        let required = requests.find_map(TopologyRequest::required_level);
        required.or_else(|| slices.next())
    }

    /// Returns the moves of a set that are needed. None: the waiting gang does not start, or a gang of
    /// the set has no room on other nodes. Afterwards the engine is as it was before.
    fn try_moves(&mut self, set: &[usize]) -> Option<Vec<GangMove>> {
        set.iter().for_each(|number| self.lift(*number));
        let mut moved = set.to_vec();
        let mut starts = self.try_to_start();
        if starts.is_some() {
            // First tries to keep the gang with the most lost work in its place.
            let mut dearest = set.to_vec();
            dearest.sort_by_key(|number| Reverse(self.lost(*number)));
            for number in dearest {
                self.put_back(number);
                match self.try_to_start() {
                    Some(placement) => {
                        starts = Some(placement);
                        moved.retain(|moved| *moved != number);
                    }
                    None => self.lift(number),
                }
            }
        }
        // Without further tries, some of the gangs may not have to move.
        let is_minimal = self.tries < MAX_TRIES && moved.len() <= MAX_MOVES;
        let moves = starts.filter(|_| is_minimal).and_then(|placement| {
            self.engine
                .restore_gang(self.waiting.clone(), placement, self.now);
            let moves = self.place_elsewhere(&moved);
            self.engine.delete_gang(&self.waiting.id);
            moves
        });
        moved.iter().for_each(|number| {
            self.lift(*number);
            self.put_back(*number);
        });
        moves
    }

    /// Places gangs again, the largest first. None: one has no room.
    fn place_elsewhere(&mut self, moved: &[usize]) -> Option<Vec<GangMove>> {
        let moved = moved
            .iter()
            .filter_map(|number| self.movable.get(*number).cloned());
        let mut moved: Vec<Movable> = moved.collect();
        moved.sort_by_key(|movable| Reverse(movable.devices));
        let moves = moved.into_iter().map(|movable| {
            let place = &movable.place;
            let placement = self.engine.find_immediate_place(&place.gang, self.now)?;
            self.engine
                .restore_gang(place.gang.clone(), placement.clone(), self.now);
            Some(GangMove {
                gang: place.gang.id.clone(),
                placement,
                lost_device_seconds: movable.lost_device_seconds,
            })
        });
        moves.collect()
    }

    /// Returns the placement of the waiting gang if it starts now. None: it does not, or
    /// the search has made [`MAX_TRIES`] tries.
    fn try_to_start(&mut self) -> Option<Placement> {
        self.tries = self.tries.saturating_add(1);
        (self.tries <= MAX_TRIES).then_some(())?;
        self.engine.find_immediate_place(&self.waiting, self.now)
    }

    fn lift(&mut self, number: usize) {
        if let Some(movable) = self.movable.get(number) {
            self.engine.delete_gang(&movable.place.gang.id);
        }
    }

    fn put_back(&mut self, number: usize) {
        if let Some(movable) = self.movable.get(number) {
            let place = &movable.place;
            self.engine.restore_gang_with_flavors(
                place.gang.clone(),
                place.placement.clone(),
                &place.flavors,
                place.since,
            );
        }
    }

    fn lost(&self, number: usize) -> u64 {
        self.movable
            .get(number)
            .map_or(0, |movable| movable.lost_device_seconds)
    }
}

/// Returns true if a gang runs whole, and may be stopped.
fn is_movable(place: &PlaceSnapshot) -> bool {
    place.standing == PlacedStateSnapshot::Settled
        && place.gang.preemptible
        && !place.gang.surplus
        && place.gone.iter().all(Vec::is_empty)
}
