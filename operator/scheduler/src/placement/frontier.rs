//! Bounded search for groups of unlike pods that compete for the same nodes: it tries every way to
//! share the nodes.
//!
//! Nodes are filled one after another. Only the number of pods of each group that are left matters
//! for the next node, so the search keeps the frontier of such remainders and drops those that
//! another one dominates. The search is exact unless it reaches a bound.

use smallvec::SmallVec;

use super::fit::Room;
use super::pack::Runs;
use super::share;
use crate::state::{Catalog, Column, GroupShape, NodeIdx, Nodes, ResourceIdx, Shape, Signature};

/// Remainders that are kept per node at most.
const WIDTH: usize = 128;
/// Ways to fill one node that are considered at most.
const WAYS: usize = 128;
/// Comparisons in one search at most: a few milliseconds.
const STEPS: usize = 400_000;

/// Pods of each group.
type Counts = SmallVec<[u32; 4]>;

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A place: for each group, nodes with the number of pods on each.
    Found(Vec<Runs>),
    /// No place was found.
    Nothing {
        /// True if the search reached no bound, so there is no place.
        certain: bool,
    },
}

/// One step of a placement: these pods on this node.
struct Step {
    before: Option<usize>,
    node: NodeIdx,
    pods: Counts,
}

struct Remainder {
    left: Counts,
    last: Option<usize>,
}

struct Search<'a> {
    groups: Vec<(&'a GroupShape, &'a Signature)>,
    /// The columns that any group needs, and what each group needs of them.
    columns: Vec<(Option<&'a Column>, Vec<i64>)>,
    weights: Vec<u128>,
    field: &'a Field<'a>,
    steps: Vec<Step>,
    made: usize,
    certain: bool,
}

/// The nodes on which a search may put pods.
pub(crate) struct Field<'a> {
    /// Nodes, in the order in which they are filled.
    pub(crate) among: &'a [NodeIdx],
    /// True if a group, by its index in the shape, may use a node.
    pub(crate) allows: &'a dyn Fn(usize, NodeIdx) -> bool,
    pub(crate) room: Room,
}

/// Looks for a place for all groups together.
pub(crate) fn search(
    nodes: &Nodes,
    catalog: &Catalog,
    shape: &Shape,
    excluded: &[NodeIdx],
    room: Room,
) -> Answer {
    // Tightest first, as in packing; nodes without devices come before all others.
    let field = Field {
        among: &nodes.tightest(),
        allows: &|_, node| !excluded.contains(&node),
        room,
    };
    search_in(nodes, catalog, shape, &field, &mut 0)
}

/// Searches on a part of the nodes. `spent` counts the comparisons, which are bounded for all
/// searches together.
pub(crate) fn search_in(
    nodes: &Nodes,
    catalog: &Catalog,
    shape: &Shape,
    field: &Field<'_>,
    spent: &mut usize,
) -> Answer {
    let shared = |(r, _): &(ResourceIdx, i128)| nodes.shared_device(*r).is_some();
    if shape.total.iter().any(shared) {
        return Answer::Nothing { certain: false };
    }
    let Some(mut search) = Search::new(nodes, catalog, shape, field, *spent) else {
        return Answer::Nothing { certain: true };
    };
    let answer = search.run(shape);
    *spent = search.made;
    answer
}

impl<'a> Search<'a> {
    fn new(
        nodes: &'a Nodes,
        catalog: &'a Catalog,
        shape: &'a Shape,
        field: &'a Field<'a>,
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
            weights: shape.groups.iter().map(|g| share(nodes, g)).collect(),
            field,
            steps: Vec::new(),
            made,
            certain: true,
        })
    }

    fn run(&mut self, shape: &Shape) -> Answer {
        let left = shape.groups.iter().map(|g| g.count).collect();
        let mut frontier = vec![Remainder { left, last: None }];
        for node in self.field.among.iter().copied() {
            let ways = self.ways(node, &frontier);
            if ways.is_empty() {
                continue;
            }
            self.made = self
                .made
                .saturating_add(frontier.len().saturating_mul(ways.len()));
            if self.made > STEPS {
                return Answer::Nothing { certain: false };
            }
            frontier = self.advance(node, frontier, &ways);
            let done = |r: &&Remainder| r.left.iter().all(|left| *left == 0);
            if let Some(end) = frontier.iter().find(done) {
                return Answer::Found(self.runs(shape, end.last));
            }
        }
        Answer::Nothing {
            certain: self.certain,
        }
    }

    /// The largest sets of pods that the node holds, none of them within another.
    fn ways(&mut self, node: NodeIdx, frontier: &[Remainder]) -> Vec<Counts> {
        let most: Counts = (0..self.groups.len())
            .map(|g| {
                let allows = self.groups.get(g).is_some_and(|(_, s)| s.allows(node))
                    && (self.field.allows)(g, node);
                let left = frontier.iter().filter_map(|r| r.left.get(g)).max();
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
            .map(|(column, _)| column.map_or(0, |c| self.field.room.of(c, node)))
            .collect();
        let alone: Counts = (0..)
            .zip(&most)
            .map(|(g, most)| self.fits(g, &free, *most))
            .collect();
        let mut ways = Vec::new();
        self.enumerate(&alone, &mut free, &mut Counts::new(), &mut ways);
        ways.retain(|way| way.iter().any(|pods| *pods > 0));
        let all = ways.len();
        let ways = prune(ways);
        self.made = self.made.saturating_add(all.saturating_mul(ways.len()));
        ways
    }

    /// Adds the ways to go on after `pods` of the first groups. The first way takes as much as it
    /// can of each group in turn. If the node holds no more of any group even alone, no other way
    /// is better.
    fn enumerate(
        &mut self,
        most: &Counts,
        free: &mut SmallVec<[i64; 8]>,
        pods: &mut Counts,
        ways: &mut Vec<Counts>,
    ) {
        let group = pods.len();
        let Some(most_here) = most.get(group) else {
            ways.push(pods.clone());
            return;
        };
        let fits = self.fits(group, free, *most_here);
        // Taking fewer pods of the last group than fit is never better.
        let last = group.saturating_add(1) == most.len();
        let least = if last { fits } else { 0 };
        for count in (least..=fits).rev() {
            if ways.first() == Some(most) {
                return;
            }
            if ways.len() >= WAYS {
                self.certain = false;
                return;
            }
            self.shift(group, free, i64::from(count).saturating_neg());
            pods.push(count);
            self.enumerate(most, free, pods, ways);
            pods.pop();
            self.shift(group, free, i64::from(count));
        }
    }

    /// How many pods of a group fit into `free`.
    fn fits(&self, group: usize, free: &[i64], most: u32) -> u32 {
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

    fn shift(&self, group: usize, free: &mut [i64], pods: i64) {
        for ((_, needs), free) in self.columns.iter().zip(free) {
            let need = needs.get(group).copied().unwrap_or(0);
            *free = free.saturating_add(need.saturating_mul(pods));
        }
    }

    /// Every remainder minus every way to fill the node.
    fn advance(
        &mut self,
        node: NodeIdx,
        frontier: Vec<Remainder>,
        ways: &[Counts],
    ) -> Vec<Remainder> {
        let mut made: Vec<(u128, Counts, Option<usize>, Counts)> = Vec::new();
        for remainder in &frontier {
            for way in ways {
                let pairs = remainder.left.iter().zip(way);
                let pods: Counts = pairs.map(|(left, pods)| *left.min(pods)).collect();
                let pairs = remainder.left.iter().zip(&pods);
                let left: Counts = pairs
                    .map(|(left, pods)| left.saturating_sub(*pods))
                    .collect();
                made.push((self.weight(&left), left, remainder.last, pods));
            }
        }
        // A dominating remainder weighs no more, and comes first among equal weights.
        made.sort_unstable();
        let mut kept: Vec<Remainder> = Vec::new();
        for (_, left, before, pods) in made {
            if kept.iter().any(|k| beats(&k.left, &left)) {
                continue;
            }
            if kept.len() == WIDTH {
                self.certain = false;
                break;
            }
            let last = if pods.iter().all(|p| *p == 0) {
                before
            } else {
                self.steps.push(Step { before, node, pods });
                Some(self.steps.len().saturating_sub(1))
            };
            kept.push(Remainder { left, last });
        }
        kept
    }

    /// How much is left to place.
    fn weight(&self, left: &Counts) -> u128 {
        left.iter()
            .zip(&self.weights)
            .fold(0, |sum, (left, weight)| {
                sum.saturating_add(u128::from(*left).saturating_mul(*weight))
            })
    }

    fn runs(&self, shape: &Shape, last: Option<usize>) -> Vec<Runs> {
        let mut runs: Vec<Runs> = shape.groups.iter().map(|_| Runs::new()).collect();
        let mut next = last;
        while let Some(step) = next.and_then(|at| self.steps.get(at)) {
            for (runs, pods) in runs.iter_mut().zip(&step.pods) {
                if *pods > 0 {
                    runs.push((step.node, *pods));
                }
            }
            next = step.before;
        }
        runs
    }
}

/// True if `a` has no more left of any group than `b`.
fn beats(a: &Counts, b: &Counts) -> bool {
    a.iter().zip(b).all(|(a, b)| a <= b)
}

/// Drops the ways that hold no more of any group than another way.
fn prune(ways: Vec<Counts>) -> Vec<Counts> {
    let mut kept: Vec<Counts> = Vec::new();
    for way in ways {
        if kept.iter().any(|k| beats(&way, k)) {
            continue;
        }
        kept.retain(|k| !beats(k, &way));
        kept.push(way);
    }
    kept
}
