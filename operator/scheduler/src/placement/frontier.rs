//! Bounded search for groups of unlike pods that compete for the same nodes: it tries every way to
//! share the nodes.
//!
//! The search fills one node after another. The next node depends only on the number of remaining
//! pods of each group. So the search keeps the frontier of these remainders and drops dominated
//! ones. The search is exact unless it reaches a bound.
//!
//! Groups with slices need the nodes in the order of the topology. At the end of each domain, the
//! search takes back the pods that do not complete a slice.

use smallvec::SmallVec;

use super::group_fit::CapacityView;
use super::group_place::dominant_share;
use super::request::PodRuns;
use super::topology::GroupSlices;
use crate::state::{
    Catalog, ConstraintSignature, GangShape, GroupShape, NodeIdx, Nodes, ResourceColumn,
    ResourceIdx,
};

/// Maximum number of remainders to keep per node.
const MAX_REMAINDERS: usize = 128;
/// Maximum number of ways to fill one node.
const MAX_FILLINGS: usize = 128;
/// Maximum number of comparisons in one search: a few milliseconds.
const MAX_COMPARISONS: usize = 400_000;

/// Pods of each group.
type GroupPodCounts = SmallVec<[u32; 4]>;

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SearchResult {
    /// A place: for each group, nodes with the number of pods on each.
    Placed(Vec<PodRuns>),
    /// No place was found.
    NoPlace {
        /// True if the search reached no bound, so there is no place.
        certain: bool,
    },
}

/// One step of a placement.
struct Step {
    previous: Option<usize>,
    action: StepAction,
    pods: GroupPodCounts,
}

enum StepAction {
    /// Puts the pods on the node.
    Fill(NodeIdx),
    /// Takes the pods back from the last nodes.
    TakeBack,
}

struct Remainder {
    pods_left: GroupPodCounts,
    last_step: Option<usize>,
}

struct FrontierSearch<'a> {
    groups: Vec<(&'a GroupShape, &'a ConstraintSignature)>,
    /// The columns that any group needs, with each group's need.
    columns: Vec<(Option<&'a ResourceColumn>, Vec<i64>)>,
    weights: Vec<u128>,
    search_nodes: &'a SearchNodes<'a>,
    steps: Vec<Step>,
    comparisons: usize,
    certain: bool,
}

/// The nodes on which a search may put pods.
pub(crate) struct SearchNodes<'a> {
    /// Nodes, in the order in which the search fills them.
    pub(crate) nodes: &'a [NodeIdx],
    /// True if a group, by its index in the shape, may use a node.
    pub(crate) allows: &'a dyn Fn(usize, NodeIdx) -> bool,
    pub(crate) view: CapacityView,
    /// The slices of the groups, in the order of the gang's groups. All are in one topology, and
    /// the nodes are in its order. Empty: no group has slices.
    pub(crate) slices: &'a [Option<GroupSlices<'a>>],
}

/// Looks for a place for all groups together.
pub(crate) fn search(
    nodes: &Nodes,
    catalog: &Catalog,
    shape: &GangShape,
    excluded: &[NodeIdx],
    room: CapacityView,
) -> SearchResult {
    // Tightest first, as in packing; nodes without devices come before all other nodes.
    let field = SearchNodes {
        nodes: &nodes.nodes_by_tightness(),
        allows: &|_, node| !excluded.contains(&node),
        view: room,
        slices: &[],
    };
    search_in(nodes, catalog, shape, &field, &mut 0)
}

/// Searches on a part of the nodes. `spent` counts the comparisons. Their bound applies to all
/// searches together.
pub(crate) fn search_in(
    nodes: &Nodes,
    catalog: &Catalog,
    shape: &GangShape,
    field: &SearchNodes<'_>,
    spent: &mut usize,
) -> SearchResult {
    let shared = |(r, _): &(ResourceIdx, i128)| nodes.shared_device(*r).is_some();
    if shape.total.iter().any(shared) {
        return SearchResult::NoPlace { certain: false };
    }
    let Some(mut search) = FrontierSearch::new(nodes, catalog, shape, field, *spent) else {
        return SearchResult::NoPlace { certain: true };
    };
    let answer = search.run(shape);
    *spent = search.comparisons;
    answer
}

impl<'a> FrontierSearch<'a> {
    fn new(
        nodes: &'a Nodes,
        catalog: &'a Catalog,
        shape: &'a GangShape,
        field: &'a SearchNodes<'a>,
        made: usize,
    ) -> Option<Self> {
        let groups = shape
            .groups
            .iter()
            .map(|g| Some((g, catalog.signature(g.signature)?)))
            .collect::<Option<Vec<_>>>()?;
        let columns = shape
            .total
            .iter()
            .map(|(resource, _)| {
                let needs = shape.groups.iter().map(|g| g.need(*resource)).collect();
                (nodes.column(*resource), needs)
            })
            .collect();
        Some(Self {
            groups,
            columns,
            weights: shape
                .groups
                .iter()
                .map(|g| dominant_share(nodes, g))
                .collect(),
            search_nodes: field,
            steps: Vec::new(),
            comparisons: made,
            certain: true,
        })
    }

    fn run(&mut self, shape: &GangShape) -> SearchResult {
        let left = shape.groups.iter().map(|g| g.count).collect();
        let mut frontier = vec![Remainder {
            pods_left: left,
            last_step: None,
        }];
        let mut previous: Option<NodeIdx> = None;
        for node in self.search_nodes.nodes.iter().copied() {
            if let Some(previous) = previous.replace(node) {
                frontier = self.take_back_partial_slices((previous, node), frontier);
            }
            let ways = self.node_fillings(node, &frontier);
            if ways.is_empty() {
                continue;
            }
            self.comparisons = self
                .comparisons
                .saturating_add(frontier.len().saturating_mul(ways.len()));
            if self.comparisons > MAX_COMPARISONS {
                return SearchResult::NoPlace { certain: false };
            }
            frontier = self.advance(node, frontier, &ways);
            let done = |r: &&Remainder| r.pods_left.iter().all(|left| *left == 0);
            if let Some(end) = frontier.iter().find(done) {
                return SearchResult::Placed(self.to_runs(shape, end.last_step));
            }
        }
        SearchResult::NoPlace {
            certain: self.certain,
        }
    }

    /// Returns the largest sets of pods that the node holds, without sets that another set
    /// contains.
    fn node_fillings(&mut self, node: NodeIdx, frontier: &[Remainder]) -> Vec<GroupPodCounts> {
        let most: GroupPodCounts = (0..self.groups.len())
            .map(|g| {
                let allows = self.groups.get(g).is_some_and(|(_, s)| s.allows(node))
                    && (self.search_nodes.allows)(g, node);
                let left = frontier.iter().filter_map(|r| r.pods_left.get(g)).max();
                if allows {
                    left.copied().unwrap_or(0)
                } else {
                    0
                }
            })
            .collect();
        let mut free: SmallVec<[i64; 8]> = self
            .columns
            .iter()
            .map(|(column, _)| column.map_or(0, |c| self.search_nodes.view.amount(c, node)))
            .collect();
        let alone: GroupPodCounts = (0..)
            .zip(&most)
            .map(|(g, most)| self.count_fitting(g, &free, *most))
            .collect();
        let mut ways = Vec::new();
        self.enumerate(&alone, &mut free, &mut GroupPodCounts::new(), &mut ways);
        ways.retain(|way| way.iter().any(|pods| *pods > 0));
        let all = ways.len();
        let ways = prune(ways);
        self.comparisons = self
            .comparisons
            .saturating_add(all.saturating_mul(ways.len()));
        ways
    }

    /// Adds the ways to continue after `pods` of the first groups. The first way takes as many pods
    /// as possible of each group in turn. If that way takes as many pods of each group as fit
    /// alone, no other way is better.
    fn enumerate(
        &mut self,
        most: &GroupPodCounts,
        free: &mut SmallVec<[i64; 8]>,
        pods: &mut GroupPodCounts,
        ways: &mut Vec<GroupPodCounts>,
    ) {
        let group = pods.len();
        let Some(most_here) = most.get(group) else {
            ways.push(pods.clone());
            return;
        };
        let fits = self.count_fitting(group, free, *most_here);
        // For the last group, it is never better to take fewer pods than fit.
        let last = group.saturating_add(1) == most.len();
        let least = if last { fits } else { 0 };
        for count in (least..=fits).rev() {
            if ways.first() == Some(most) {
                return;
            }
            if ways.len() >= MAX_FILLINGS {
                self.certain = false;
                return;
            }
            self.release_pods(group, free, i64::from(count).saturating_neg());
            pods.push(count);
            self.enumerate(most, free, pods, ways);
            pods.pop();
            self.release_pods(group, free, i64::from(count));
        }
    }

    /// Returns how many pods of a group fit into `free`.
    fn count_fitting(&self, group: usize, free: &[i64], most: u32) -> u32 {
        let fits = self
            .columns
            .iter()
            .zip(free)
            .filter_map(|((_, needs), free)| {
                let need = needs.get(group).copied().unwrap_or(0);
                free.checked_div(need)
            })
            .fold(i64::from(most), i64::min);
        u32::try_from(fits.max(0)).unwrap_or(0)
    }

    fn release_pods(&self, group: usize, free: &mut [i64], pods: i64) {
        for ((_, needs), free) in self.columns.iter().zip(free) {
            let need = needs.get(group).copied().unwrap_or(0);
            *free = free.saturating_add(need.saturating_mul(pods));
        }
    }

    /// Combines every remainder with every way to fill the node, and returns the new remainders.
    fn advance(
        &mut self,
        node: NodeIdx,
        frontier: Vec<Remainder>,
        ways: &[GroupPodCounts],
    ) -> Vec<Remainder> {
        let mut made: Vec<(u128, GroupPodCounts, Option<usize>, GroupPodCounts)> = Vec::new();
        for remainder in &frontier {
            for way in ways {
                let pairs = remainder.pods_left.iter().zip(way);
                let pods: GroupPodCounts = pairs.map(|(left, pods)| *left.min(pods)).collect();
                let pairs = remainder.pods_left.iter().zip(&pods);
                let left: GroupPodCounts = pairs
                    .map(|(left, pods)| left.saturating_sub(*pods))
                    .collect();
                made.push((
                    self.remaining_weight(&left),
                    left,
                    remainder.last_step,
                    pods,
                ));
            }
        }
        // A dominating remainder never weighs more than the dominated one, and comes first among
        // equal weights.
        made.sort_unstable();
        let mut kept: Vec<Remainder> = Vec::new();
        for (_, left, before, pods) in made {
            if kept.iter().any(|k| is_no_worse(&k.pods_left, &left)) {
                continue;
            }
            if kept.len() == MAX_REMAINDERS {
                self.certain = false;
                break;
            }
            let last = if pods.iter().all(|p| *p == 0) {
                before
            } else {
                self.add_step(before, StepAction::Fill(node), pods)
            };
            kept.push(Remainder {
                pods_left: left,
                last_step: last,
            });
        }
        kept
    }

    fn add_step(
        &mut self,
        previous: Option<usize>,
        action: StepAction,
        pods: GroupPodCounts,
    ) -> Option<usize> {
        self.steps.push(Step {
            previous,
            action,
            pods,
        });
        self.steps.len().checked_sub(1)
    }

    /// In the domains that end between two nodes, takes back the pods that do not complete a slice.
    /// A remainder that dominated another one still dominates it, because rounding keeps the order.
    fn take_back_partial_slices(
        &mut self,
        between: (NodeIdx, NodeIdx),
        mut frontier: Vec<Remainder>,
    ) -> Vec<Remainder> {
        let ended: Vec<Option<u32>> = self
            .search_nodes
            .slices
            .iter()
            .map(|split| split.as_ref().and_then(|split| split.ended_slice(between)))
            .collect();
        if ended.iter().all(Option::is_none) {
            return frontier;
        }
        for remainder in &mut frontier {
            let mut partial = GroupPodCounts::new();
            for (at, (group, _)) in self.groups.iter().enumerate() {
                let slice = ended.get(at).copied().flatten();
                let left = remainder.pods_left.get_mut(at);
                let pods = slice.zip(left).map_or(0, |(slice, left)| {
                    let placed = group.count.saturating_sub(*left);
                    let pods = placed.checked_rem(slice).unwrap_or(0);
                    *left = left.saturating_add(pods);
                    pods
                });
                partial.push(pods);
            }
            if partial.iter().any(|pods| *pods > 0) {
                let before = remainder.last_step;
                remainder.last_step = self.add_step(before, StepAction::TakeBack, partial);
            }
        }
        frontier
    }

    /// Returns the weight of the pods left to place.
    fn remaining_weight(&self, left: &GroupPodCounts) -> u128 {
        left.iter()
            .zip(&self.weights)
            .fold(0, |sum, (left, weight)| {
                sum.saturating_add(u128::from(*left).saturating_mul(*weight))
            })
    }

    fn to_runs(&self, shape: &GangShape, last: Option<usize>) -> Vec<PodRuns> {
        let mut runs: Vec<PodRuns> = shape.groups.iter().map(|_| PodRuns::new()).collect();
        let mut taken_back: GroupPodCounts = runs.iter().map(|_| 0).collect();
        let mut next = last;
        while let Some(step) = next.and_then(|at| self.steps.get(at)) {
            let groups = runs.iter_mut().zip(&mut taken_back).zip(&step.pods);
            for ((runs, taken_back), pods) in groups {
                match step.action {
                    StepAction::TakeBack => *taken_back = taken_back.saturating_add(*pods),
                    StepAction::Fill(node) => {
                        let less = (*taken_back).min(*pods);
                        *taken_back = taken_back.saturating_sub(less);
                        if *pods > less {
                            runs.push((node, pods.saturating_sub(less)));
                        }
                    }
                }
            }
            next = step.previous;
        }
        runs
    }
}

/// True if for every group `a` has at most as many pods left as `b`.
fn is_no_worse(a: &GroupPodCounts, b: &GroupPodCounts) -> bool {
    a.iter().zip(b).all(|(a, b)| a <= b)
}

/// Drops each way for which another way holds at least as many pods of every group.
fn prune(ways: Vec<GroupPodCounts>) -> Vec<GroupPodCounts> {
    let mut kept: Vec<GroupPodCounts> = Vec::new();
    for way in ways {
        if kept.iter().any(|k| is_no_worse(&way, k)) {
            continue;
        }
        kept.retain(|k| !is_no_worse(k, &way));
        kept.push(way);
    }
    kept
}
