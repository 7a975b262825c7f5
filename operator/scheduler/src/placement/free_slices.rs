//! The free slices that gangs of the history need: packing keeps them whole.
//!
//! A gang that must be in one rack needs a rack with room for all its pods, and a gang with slices
//! needs one for each slice. The history knows such gangs with their sizes. For each size this
//! counts the pods that every domain has room for, and keeps the counts up to date as nodes change.
//! A domain with room for 18 pods holds one slice of 16. The slice is lost when the room falls from
//! 16 to 15, not from 18 to 17.
//!
//! This is the idea of FGD (see `fragmentation`) one level up: a typical gang can use a domain up
//! to the last whole slice.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::history::{TaskCounts, TypicalTask};
use super::slice_totals::{PodChange, SliceTotals};
use super::topology::{GroupSlices, ResolvedSlices};
use crate::state::{Catalog, NodeIdx, NodeProfile, Nodes, PodNeeds, SignatureIdx};

/// Maximum number of kinds of slices, the most frequent first. This bounds the time per node.
const MAX_SLICE_KINDS: usize = 16;

/// The room of a node for pods of each kind of slices.
pub(super) type PodRoom = SmallVec<[u32; 4]>;

/// The coarsest domain of a node for each kind of slices.
pub(super) type CoarsestDomains = SmallVec<[Option<usize>; 4]>;

/// All kinds of slices that the history knows. Empty: no gang needs a domain.
#[derive(Debug, Default)]
pub(super) struct FreeSlices {
    kinds: Vec<SliceKind>,
    /// The room by kind, for each node.
    room: Vec<PodRoom>,
    /// The cell of each node: nodes in the same domains have equal cells.
    cells: Vec<u32>,
    /// The renewal of the history and the layout that the kinds belong to.
    version: Option<(u64, u64)>,
    /// True if the nodes must be counted again.
    stale: bool,
}

/// Slices of one size at one level, for pods with equal needs.
#[derive(Debug)]
struct SliceKind {
    needs: PodNeeds,
    /// The bit of its signature in a profile.
    bit: u128,
    /// The frequency of its pods, times the devices of one pod.
    weight: i64,
    totals: SliceTotals,
}

impl SliceKind {
    fn new(
        task: &TypicalTask<'_>,
        lenses: &[SignatureIdx],
        nodes: &Nodes,
        catalog: &Catalog,
    ) -> Option<Self> {
        let demand = catalog.demand(task.demand);
        let (layout, slices) = ResolvedSlices::find_needed(nodes.domains(), task.slices)?;
        let place = lenses.iter().position(|lens| *lens == task.signature)?;
        let devices = demand.iter().find(|(resource, _)| *resource == task.device);
        let weight = i64::try_from(task.weight).unwrap_or(i64::MAX);
        Some(Self {
            needs: nodes.needs(&demand)?,
            bit: 1_u128.checked_shl(u32::try_from(place).ok()?)?,
            weight: weight.saturating_mul(devices?.1),
            totals: SliceTotals::new(GroupSlices {
                layout: &layout,
                slices: &slices,
            }),
        })
    }

    /// Returns how many pods fit on a node.
    fn room(&self, profile: &NodeProfile) -> u32 {
        match profile.met_signatures & self.bit {
            0 => 0,
            _ => profile.count_fitting(&self.needs, u32::MAX),
        }
    }
}

impl FreeSlices {
    /// True if no gang of the history needs a domain.
    pub(super) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Finds the kinds of slices again if the history or the domains have changed. `lenses` are the
    /// signatures that classes distinguish.
    pub(super) fn prepare(
        &mut self,
        history: &TaskCounts,
        lenses: impl Fn() -> Vec<SignatureIdx>,
        nodes: &Nodes,
        catalog: &Catalog,
    ) {
        let version = (history.version(), nodes.domains().version());
        if self.version.replace(version) == Some(version) {
            return;
        }
        let sliced = history.typical_tasks().filter(|t| !t.slices.is_empty());
        let lenses = lenses();
        let kinds = sliced.filter_map(|task| SliceKind::new(&task, &lenses, nodes, catalog));
        self.kinds = kinds.collect();
        // The sort is stable.
        self.kinds.sort_by_key(|kind| Reverse(kind.weight));
        self.kinds.truncate(MAX_SLICE_KINDS);
        self.stale = true;
    }

    /// Counts the changed nodes again.
    pub(super) fn update(&mut self, nodes: &Nodes, changed: &[NodeIdx]) {
        if self.is_empty() {
            return;
        }
        if std::mem::take(&mut self.stale) {
            self.room.clear();
            self.number_cells(nodes);
            for kind in &mut self.kinds {
                kind.totals.clear();
            }
            let all: Vec<NodeIdx> = (0..nodes.index_bound()).map(NodeIdx::of).collect();
            return self.count(nodes, &all);
        }
        self.count(nodes, changed);
    }

    fn count(&mut self, nodes: &Nodes, changed: &[NodeIdx]) {
        self.room.resize_with(nodes.index_bound(), PodRoom::new);
        // Changed nodes are often of one class.
        let mut last: Option<(usize, PodRoom)> = None;
        for node in changed {
            let class = nodes.classes().class_of(*node);
            let now = match (&last, class) {
                (Some((before, room)), Some(class)) if *before == class => room.clone(),
                (_, class) => {
                    let found = class.and_then(|class| nodes.classes().get(class));
                    let room = found.map_or_else(PodRoom::new, |c| self.room_of(&c.profile));
                    last = class.map(|class| (class, room.clone()));
                    room
                }
            };
            let Some(slot) = self.room.get_mut(node.at()) else {
                continue;
            };
            if *slot == now {
                continue;
            }
            for (at, kind) in self.kinds.iter_mut().enumerate() {
                let pods = |room: &PodRoom| u64::from(room.get(at).copied().unwrap_or(0));
                let change = PodChange {
                    before: pods(slot),
                    after: pods(&now),
                };
                if change.before != change.after {
                    kind.totals.apply(*node, change);
                }
            }
            *slot = now;
        }
    }

    fn number_cells(&mut self, nodes: &Nodes) {
        let mut numbers: FxHashMap<SmallVec<[Option<usize>; 4]>, u32> = FxHashMap::default();
        let all = (0..nodes.index_bound()).map(NodeIdx::of);
        let cells = all.map(|node| {
            let domains = self.kinds.iter().map(|k| k.totals.finest_domain(node));
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            *numbers.entry(domains.collect()).or_insert(next)
        });
        self.cells = cells.collect();
    }

    /// Returns the cell of a node.
    pub(super) fn cell(&self, node: NodeIdx) -> u32 {
        self.cells.get(node.at()).copied().unwrap_or(u32::MAX)
    }

    /// Returns the room of a node for the pods of each kind.
    pub(super) fn room_of(&self, profile: &NodeProfile) -> PodRoom {
        self.kinds.iter().map(|kind| kind.room(profile)).collect()
    }

    /// True if a node has room for a pod of any kind.
    pub(super) fn has_room(&self, profile: &NodeProfile) -> bool {
        self.kinds.iter().any(|kind| kind.room(profile) > 0)
    }

    /// Copies the counts, so that a placement can be tried on them.
    pub(super) fn trial(&self) -> SliceTrial {
        let kinds = self.kinds.iter();
        SliceTrial {
            kinds: kinds.map(|k| (k.weight, k.totals.clone())).collect(),
        }
    }
}

/// Free slices during the search for a place.
#[derive(Debug)]
pub(super) struct SliceTrial {
    /// The weight of each kind, and its counts.
    kinds: Vec<(i64, SliceTotals)>,
}

impl SliceTrial {
    /// Returns the devices in whole slices that are lost if the room of a node falls, weighted by
    /// the frequency of the slices.
    pub(super) fn loss(&self, node: NodeIdx, rooms: (&PodRoom, &PodRoom)) -> i64 {
        let kinds = self.kinds.iter().zip(changes(rooms));
        kinds.fold(0, |sum, ((weight, totals), change)| {
            if change.before == change.after {
                return sum;
            }
            let whole = totals.whole_change(node, change);
            let lost = whole.before.saturating_sub(whole.after);
            let lost = i64::try_from(lost).unwrap_or(i64::MAX);
            sum.saturating_add(lost.saturating_mul(*weight))
        })
    }

    /// Changes the room of a node.
    pub(super) fn apply(&mut self, node: NodeIdx, rooms: (&PodRoom, &PodRoom)) {
        for ((_, totals), change) in self.kinds.iter_mut().zip(changes(rooms)) {
            if change.before != change.after {
                totals.apply(node, change);
            }
        }
    }

    /// Returns the coarsest domain of a node for each kind. A change of a node concerns only nodes
    /// that share one of them.
    pub(super) fn coarsest_domains(&self, node: NodeIdx) -> CoarsestDomains {
        let kinds = self.kinds.iter();
        kinds
            .map(|(_, totals)| totals.coarsest_domain(node))
            .collect()
    }

    /// Returns the devices that pods of the kinds could use in the domains of a node, weighted by
    /// their frequency. A node without room for any pod of the kinds counts 0.
    pub(super) fn usable_in_domain(&self, node: NodeIdx, room: &PodRoom) -> i64 {
        let kinds = self.kinds.iter().zip(room).filter(|(_, room)| **room > 0);
        kinds.fold(0, |sum, ((weight, totals), _)| {
            let pods = i64::try_from(totals.pods_in_domain(node)).unwrap_or(i64::MAX);
            sum.saturating_add(pods.saturating_mul(*weight))
        })
    }
}

fn changes<'r>(
    (before, after): (&'r PodRoom, &'r PodRoom),
) -> impl Iterator<Item = PodChange> + use<'r> {
    before.iter().zip(after).map(|(before, after)| PodChange {
        before: u64::from(*before),
        after: u64::from(*after),
    })
}
