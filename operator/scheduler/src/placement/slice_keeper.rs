//! Packing that keeps free slices whole.
//!
//! The nodes are offered in the order of packing, all of one rank at a time. The keeper takes those
//! that lose no slice. If they do not hold all pods, it takes from the remaining nodes: each time
//! the node with the smallest loss per pod, then all that lose nothing more.
//!
//! Among nodes of one rank, it takes those in the domain with the least room first. So a domain
//! that is broken already is filled before a whole one.

use rustc_hash::FxHashMap;

use super::free_slices::{CoarsestDomains, PodRoom, SliceTrial};
use super::ranking::{ClassRank, CurrentRanking, loss_per_pod};
use super::request::PodRuns;
use crate::state::{NodeIdx, NodeProfile};

/// The search for nodes that lose the fewest free slices.
pub(super) struct SliceKeeper<'a> {
    ranked: &'a CurrentRanking<'a>,
    trial: SliceTrial,
    classes: Vec<ClassRooms<'a>>,
    class_numbers: FxHashMap<usize, usize>,
    /// Nodes that would lose a slice.
    declined: Vec<Declined>,
    left: u32,
    runs: PodRuns,
}

/// The room of the nodes of a class before and after they take pods of the group.
struct ClassRooms<'a> {
    profile: &'a NodeProfile,
    /// The number of pods that a node takes.
    pods: u32,
    before: PodRoom,
    after: PodRoom,
}

/// Nodes of one class in the same domains. To take one of them loses as much as another.
struct Cell {
    rank: ClassRank,
    class: usize,
    /// The nodes, the first at the end.
    nodes: Vec<NodeIdx>,
}

/// A declined cell.
struct Declined {
    cell: Cell,
    domains: CoarsestDomains,
    /// None: it must be computed again.
    order: Option<LossOrder>,
}

/// The loss per pod, the rank of the nodes, and the devices that are usable in their domains. The
/// least comes first.
type LossOrder = (i64, ClassRank, i64);

impl Declined {
    /// Marks the order for computation if a change of a node in these domains concerns the cell.
    fn mark_changed(&mut self, domains: &CoarsestDomains) {
        let mut pairs = self.domains.iter().zip(domains);
        if pairs.any(|(own, changed)| own.is_some() && own == changed) {
            self.order = None;
        }
    }
}

impl<'a> SliceKeeper<'a> {
    /// Starts with `runs` already taken, and `left` pods to place.
    pub(super) fn new(ranked: &'a CurrentRanking<'a>, left: u32, runs: PodRuns) -> Self {
        Self {
            ranked,
            trial: ranked.free_slices().trial(),
            classes: Vec::new(),
            class_numbers: FxHashMap::default(),
            declined: Vec::new(),
            left,
            runs,
        }
    }

    /// Returns the nodes, if they hold all pods.
    pub(super) fn into_runs(self) -> Option<PodRuns> {
        self.is_done().then_some(self.runs)
    }

    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Takes the nodes that lose no slice. The nodes are of one rank, in the order of their names.
    pub(super) fn take_without_loss(
        &mut self,
        rank: ClassRank,
        nodes: impl Iterator<Item = NodeIdx>,
    ) {
        let mut cells = self.collect_cells(rank, nodes);
        // The sort is stable.
        cells.sort_by_cached_key(|cell| self.usable_in_domain(cell));
        for mut cell in cells {
            while !self.is_done() && self.loss(&cell) == Some(0) {
                self.take(&mut cell);
            }
            if let Some(node) = cell.nodes.last() {
                self.declined.push(Declined {
                    domains: self.trial.coarsest_domains(*node),
                    cell,
                    order: None,
                });
            }
        }
    }

    /// Takes the declined nodes, with the smallest loss first.
    pub(super) fn take_with_least_loss(&mut self) {
        let mut declined = std::mem::take(&mut self.declined);
        while !self.is_done() {
            for place in declined.iter_mut().filter(|place| place.order.is_none()) {
                place.order = self.loss_order(&place.cell);
            }
            let orders = declined.iter_mut().filter_map(|d| Some((d.order?, d)));
            // The first of equal cells wins.
            let Some((_, best)) = orders.min_by_key(|(order, _)| *order) else {
                return;
            };
            self.take(&mut best.cell);
            while !self.is_done() && self.loss(&best.cell) == Some(0) {
                self.take(&mut best.cell);
            }
            best.order = None;
            let domains = best.domains.clone();
            // Fewer pods are left than some nodes hold, so their losses may be smaller.
            let takes_less = self.classes.iter().any(|class| class.pods == self.left);
            for place in &mut declined {
                match takes_less {
                    true => place.order = None,
                    false => place.mark_changed(&domains),
                }
            }
        }
    }

    fn loss_order(&self, cell: &Cell) -> Option<LossOrder> {
        let loss = self.loss(cell)?;
        let pods = self.classes.get(cell.class)?.pods;
        let per_pod = loss_per_pod(loss, pods);
        Some((per_pod, cell.rank, self.usable_in_domain(cell)))
    }

    fn collect_cells(
        &mut self,
        rank: ClassRank,
        nodes: impl Iterator<Item = NodeIdx>,
    ) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        let mut numbers: FxHashMap<(usize, u32), usize> = FxHashMap::default();
        let classes = self.ranked.nodes().classes();
        // Neighbouring nodes are often of one class and in the same domains.
        let mut last: Option<((usize, u32), usize)> = None;
        for node in nodes {
            let Some(class) = classes.class_of(node) else {
                continue;
            };
            let key = (class, self.ranked.free_slices().cell(node));
            let at = match last {
                Some((before, at)) if before == key => at,
                _ => *numbers.entry(key).or_insert(cells.len()),
            };
            last = Some((key, at));
            match cells.get_mut(at) {
                Some(cell) => cell.nodes.push(node),
                None => cells.extend(self.rooms_of(class).map(|class| Cell {
                    rank,
                    class,
                    nodes: vec![node],
                })),
            }
        }
        for cell in &mut cells {
            cell.nodes.reverse();
        }
        cells
    }

    /// Returns the place in `classes` of the class with this number.
    fn rooms_of(&mut self, number: usize) -> Option<usize> {
        if let Some(at) = self.class_numbers.get(&number) {
            return Some(*at);
        }
        let classes = self.ranked.nodes().classes();
        let profile = classes.get(number)?.profile.as_ref();
        let mut rooms = ClassRooms {
            profile,
            pods: 0,
            before: self.ranked.free_slices().room_of(profile),
            after: PodRoom::new(),
        };
        rooms.limit_pods(self.ranked, self.left);
        let at = self.classes.len();
        self.classes.push(rooms);
        self.class_numbers.insert(number, at);
        Some(at)
    }

    /// Returns the loss if the next node of a cell takes pods. None: the cell has no node left.
    fn loss(&self, cell: &Cell) -> Option<i64> {
        let rooms = self.classes.get(cell.class)?;
        let node = cell.nodes.last()?;
        Some(self.trial.loss(*node, (&rooms.before, &rooms.after)))
    }

    fn usable_in_domain(&self, cell: &Cell) -> i64 {
        let node = cell.nodes.last().zip(self.classes.get(cell.class));
        node.map_or(0, |(node, rooms)| {
            self.trial.usable_in_domain(*node, &rooms.before)
        })
    }

    /// Fills the next node of a cell.
    fn take(&mut self, cell: &mut Cell) {
        let Some(node) = cell.nodes.pop() else {
            return;
        };
        let Some(rooms) = self.classes.get(cell.class) else {
            return;
        };
        self.trial.apply(node, (&rooms.before, &rooms.after));
        self.runs.push((node, rooms.pods));
        self.left = self.left.saturating_sub(rooms.pods);
        if !self.is_done() {
            for rooms in &mut self.classes {
                rooms.limit_pods(self.ranked, self.left);
            }
        }
    }
}

impl ClassRooms<'_> {
    /// Limits the pods that a node takes.
    fn limit_pods(&mut self, ranked: &CurrentRanking<'_>, left: u32) {
        if self.pods > 0 && self.pods <= left {
            return;
        }
        self.pods = ranked.count_fitting(self.profile, left);
        let after = ranked.profile_with_pods(self.profile, self.pods);
        self.after = ranked.free_slices().room_of(&after);
    }
}
