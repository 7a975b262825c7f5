//! The earliest start and a placement for a gang.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::placement::{
    FitCounter, NodeCharge, PackingState, PlacementRequest, PodRuns, UndoLog, place_without,
};
use crate::state::{Catalog, NodeIdx, Nodes, ResourceIdx};
use crate::time::Time;

/// Number of ends after which the planner checks if the gang can fit at all. Usually fewer ends
/// suffice, and the check visits every node.
const ENDS_BEFORE_FEASIBILITY_CHECK: usize = 64;

/// A start and a placement.
#[derive(Clone, Debug)]
pub(crate) struct StartPlan {
    /// The start time. None: unknown.
    pub(crate) start: Option<Time>,
    /// The first end that the plan relies on.
    pub(crate) first_end: Option<Time>,
    /// The nodes of the pods, in the order of the gang's task groups.
    pub(crate) groups: Vec<PodRuns>,
    /// Room that must stay free until the start, in addition to the room that becomes free.
    pub(crate) reserved_room: Vec<NodeCharge>,
}

/// A gang or pod that the planner assumes to end.
#[derive(Clone, Debug)]
pub(crate) struct Departure {
    /// When it ends. None: unknown.
    pub(crate) end: Option<Time>,
    pub(crate) charges: SmallVec<[NodeCharge; 2]>,
}

/// Merges two lists by end. Departures without a known end come last, those of `first` before those
/// of `second`.
pub(crate) fn merge_by_end(
    first: impl Iterator<Item = Departure>,
    second: impl Iterator<Item = Departure>,
) -> impl Iterator<Item = Departure> {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    let rank = |leaver: &Departure| (leaver.end.is_none(), leaver.end);
    std::iter::from_fn(move || match (first.peek(), second.peek()) {
        (Some(a), Some(b)) if rank(a) <= rank(b) => first.next(),
        (_, Some(_)) => second.next(),
        _ => first.next(),
    })
}

/// The live state. The planner tries placements on it and undoes them.
pub(crate) struct Planner<'a> {
    pub(crate) nodes: &'a mut Nodes,
    pub(crate) packing: &'a mut PackingState,
    pub(crate) catalog: &'a Catalog,
}

impl Planner<'_> {
    /// Returns the earliest start of a gang that has no place now, if the gangs in `ends` end in
    /// this order. None: it has no place even after all of them have ended. `others` are the
    /// departing pods that belong to no gang.
    ///
    /// Counts of pods per node show after how many ends a placement may be possible, and usually it
    /// then is. From then on the planner tries to place the gang. After a failure it goes on in
    /// steps that double. After a success it bisects, because more room is never worse.
    pub(crate) fn plan(
        &mut self,
        wish: &PlacementRequest<'_>,
        ends: impl Iterator<Item = Departure>,
        others: &[Departure],
    ) -> Option<StartPlan> {
        let mut rooms = FitCounter::new(self.nodes, self.catalog, wish);
        let mut gone: Vec<Departure> = Vec::new();
        let (mut failed, mut step) = (0_usize, 1_usize);
        for mut leaver in ends {
            leaver.charges.retain(|hold| rooms.may_use(hold.node));
            if leaver.charges.is_empty() {
                continue;
            }
            for hold in &leaver.charges {
                rooms.release_charge(self.nodes, hold);
            }
            gone.push(leaver);
            if gone.len() == ENDS_BEFORE_FEASIBILITY_CHECK && !self.is_possible(&rooms, others) {
                return None;
            }
            if !rooms.has_enough() {
                failed = gone.len();
            } else if gone.len() >= failed.saturating_add(step) {
                if let Some(groups) = self.place_without(wish, &gone) {
                    return Some(self.find_earliest(wish, &gone, failed, groups));
                }
                failed = gone.len();
                step = step.saturating_mul(2);
            }
        }
        if failed >= gone.len() {
            return None;
        }
        let groups = self.place_without(wish, &gone)?;
        Some(self.find_earliest(wish, &gone, failed, groups))
    }

    /// Returns true if every group alone would fit after all gangs and `others` have left.
    fn is_possible(&mut self, rooms: &FitCounter, others: &[Departure]) -> bool {
        let mut left = UndoLog::default();
        for hold in others.iter().flat_map(|leaver| &leaver.charges) {
            left.uncharge(self.nodes, hold);
        }
        let is_possible = rooms.fits_without_gangs(self.nodes);
        left.roll_back(self.nodes);
        is_possible
    }

    /// Returns the plan with the fewest ends: more than `failed`, and at most all ends in `gone`.
    /// `groups` is the placement for all ends.
    fn find_earliest(
        &mut self,
        wish: &PlacementRequest<'_>,
        gone: &[Departure],
        mut failed: usize,
        mut groups: Vec<PodRuns>,
    ) -> StartPlan {
        let mut enough = gone.len();
        while failed.saturating_add(1) < enough {
            let middle = failed.midpoint(enough);
            let few = gone.get(..middle).unwrap_or(gone);
            match self.place_without(wish, few) {
                Some(found) => (enough, groups) = (middle, found),
                None => failed = middle,
            }
        }
        let gone = gone.get(..enough).unwrap_or(gone);
        StartPlan {
            start: gone.last().and_then(|leaver| leaver.end),
            first_end: gone.iter().find_map(|leaver| leaver.end),
            reserved_room: self.compute_reserved_room(wish, &groups, gone),
            groups,
        }
    }

    /// Returns a placement after these gangs have ended.
    fn place_without(
        &mut self,
        wish: &PlacementRequest<'_>,
        gone: &[Departure],
    ) -> Option<Vec<PodRuns>> {
        let leaving = gone.iter().flat_map(|leaver| &leaver.charges);
        place_without(self.nodes, self.packing, self.catalog, wish, leaving)
    }

    /// Returns true if shared devices decide how many pods fit on a node.
    fn has_shared_devices(&self, demand: &[(ResourceIdx, i64)], node: NodeIdx) -> bool {
        let open = |resource| self.nodes.shared_devices(node).any(|(d, _)| d == resource);
        let mut resources = demand.iter().map(|(resource, _)| *resource);
        resources.any(|r| self.nodes.shared_device(r).is_some() || open(r))
    }

    /// Returns the needs of the placement on each node that exceed the room which the ending gangs
    /// leave there. On nodes with shared devices it is unknown which device becomes free, so the
    /// result keeps the whole node free.
    fn compute_reserved_room(
        &self,
        wish: &PlacementRequest<'_>,
        groups: &[PodRuns],
        gone: &[Departure],
    ) -> Vec<NodeCharge> {
        let mut lacks: BTreeMap<NodeIdx, BTreeMap<ResourceIdx, i64>> = BTreeMap::new();
        let mut keep = Vec::new();
        for (group, runs) in wish.shape.groups.iter().zip(groups) {
            for (node, pods) in runs {
                if self.has_shared_devices(&group.demand, *node) {
                    let every_pod = self.catalog.pods();
                    let all = self.nodes.allocatable(every_pod, *node);
                    keep.push(NodeCharge {
                        node: *node,
                        demand: Arc::new(vec![(every_pod, all)]),
                        pods: 1,
                        in_placed_gang: true,
                    });
                    continue;
                }
                let lacks = lacks.entry(*node).or_default();
                for (resource, need) in group.demand.iter() {
                    let needs = need.saturating_mul(i64::from(*pods));
                    let sum = lacks.entry(*resource).or_default();
                    *sum = sum.saturating_add(needs);
                }
            }
        }
        for hold in gone.iter().flat_map(|leaver| &leaver.charges) {
            let Some(lacks) = lacks.get_mut(&hold.node) else {
                continue;
            };
            for (resource, need) in hold.demand.iter() {
                let leaves = need.saturating_mul(i64::from(hold.pods));
                if let Some(lack) = lacks.get_mut(resource) {
                    *lack = lack.saturating_sub(leaves);
                }
            }
        }
        let lacks = lacks.into_iter().filter_map(|(node, lacks)| {
            let demand: Vec<_> = lacks.into_iter().filter(|(_, lack)| *lack > 0).collect();
            (!demand.is_empty()).then(|| NodeCharge {
                node,
                demand: Arc::new(demand),
                pods: 1,
                in_placed_gang: true,
            })
        });
        keep.extend(lacks);
        keep
    }
}
