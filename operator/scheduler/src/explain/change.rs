//! The smallest change that would let a gang run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use smallvec::SmallVec;

use super::capacity::Question;
use super::survey::Survey;
use super::{Certificate, Detail};
use crate::ids::{FlavorName, NodeName, QueueName, ResourceName};
use crate::placement::{Closeness, Fit, Room};
use crate::state::{GroupShape, NodeIdx};

/// What would let a gang pass what it waits for, and nothing less of that kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Each of these limits is raised: then quota allows it.
    Raise(Vec<Raise>),
    /// On each of these nodes so much more becomes free: then it has a place there.
    /// By name of the node.
    Free(Vec<FreeOn>),
}

/// A limit that is raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raise {
    /// Of this queue.
    pub queue: QueueName,
    /// Its borrowing limit; else its nominal quota.
    pub borrowing_limit: bool,
    /// The flavor, where it is not the default one.
    pub flavor: Option<FlavorName>,
    /// The resource.
    pub resource: ResourceName,
    /// By so much, in base units.
    pub by: i128,
}

/// What becomes free on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeOn {
    /// The node.
    pub node: NodeName,
    /// So much more of each of these than is free now, in base units: devices first,
    /// then by name.
    pub amounts: Vec<(ResourceName, i128)>,
}

/// What one pod more on a node costs, of each resource in the order of the lines.
type Cost = SmallVec<[i128; 4]>;

impl Certificate {
    /// The change, where it says more than the sentence about what lacks.
    pub(super) fn news(&self) -> Option<&Change> {
        let change = self.change.as_deref()?;
        let known = match (self.detail.as_ref(), change) {
            (
                Detail::QuotaExceeded {
                    queue,
                    borrowing_limit,
                    missing,
                    ..
                },
                Change::Raise(raises),
            ) => matches!(raises.as_slice(), [one]
                if one.queue == *queue && one.by == *missing
                    && one.borrowing_limit == *borrowing_limit),
            (
                Detail::ExceedsQuota {
                    queue, needs, most, ..
                },
                Change::Raise(raises),
            ) => matches!(raises.as_slice(), [one]
                if one.queue == *queue && one.by == needs.saturating_sub(*most)
                    && !one.borrowing_limit),
            (
                Detail::InsufficientCapacity {
                    resource, missing, ..
                },
                Change::Free(nodes),
            ) => {
                let all = nodes.iter().flat_map(|on| &on.amounts);
                let mut sum = 0_i128;
                let mut others = false;
                for (of, amount) in all {
                    sum = sum.saturating_add(if of == resource { *amount } else { 0 });
                    others |= of != resource;
                }
                sum == *missing && !others
            }
            _ => false,
        };
        (!known).then_some(change)
    }
}

impl Question<'_> {
    /// What must become free at least, and where, for a gang of one group: one look at
    /// each node that matches, and one more for each pod that finds no room.
    pub(super) fn least_to_free(&self, surveys: &[Survey]) -> Option<Change> {
        let mut with_pods = self.shape.groups.iter().zip(surveys);
        let mut with_pods = with_pods.by_ref().filter(|(group, _)| group.count > 0);
        let ((group, survey), None) = (with_pods.next()?, with_pods.next()) else {
            return None;
        };
        let mut demand = group.demand.iter();
        if demand.any(|(r, _)| self.nodes.shared_device(*r).is_some()) {
            return None;
        }
        let close = Closeness::of(self.nodes, self.shape)?;
        let near = close.single(self.shape).map(|(_, near)| near);
        let mut best: Option<(Cost, Vec<(NodeIdx, Cost)>)> = None;
        let mut see = |nodes: &[NodeIdx]| {
            let found = self.to_free(group, survey, nodes);
            if let Some(found) = found
                && best.as_ref().is_none_or(|best| found.0 < best.0)
            {
                best = Some(found);
            }
        };
        match near.filter(|near| near.is_required()) {
            None if close.gang.iter().any(|gang| gang.is_required()) => return None,
            None => see(&survey.nodes),
            Some(near) => {
                let mut domains: BTreeMap<u32, Vec<NodeIdx>> = BTreeMap::new();
                for node in &survey.nodes {
                    let domain = near.level.layout.domain(near.level.depth, *node);
                    if let Some(domain) = domain {
                        domains.entry(domain).or_default().push(*node);
                    }
                }
                domains.values().for_each(|nodes| see(nodes));
            }
        }
        let free = |(node, cost): (NodeIdx, Cost)| FreeOn {
            node: self.nodes.name(node).clone(),
            amounts: survey
                .lines
                .iter()
                .zip(cost)
                .filter(|(_, amount)| *amount > 0)
                .map(|(line, amount)| (line.asked.name.clone(), amount))
                .collect(),
        };
        let (_, nodes) = best?;
        let mut nodes: Vec<FreeOn> = nodes.into_iter().map(free).collect();
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        Some(Change::Free(nodes))
    }

    /// The least that makes room on these nodes, in all and node by node: the first
    /// resource counts first. A second pod on a node never costs less of it than the
    /// first, so to take the cheapest pod each time is best. None: not even with all
    /// pods gone.
    fn to_free(
        &self,
        group: &GroupShape,
        survey: &Survey,
        among: &[NodeIdx],
    ) -> Option<(Cost, Vec<(NodeIdx, Cost)>)> {
        let fit = Fit::new(self.nodes, group, Room::Free);
        let mut short = u64::from(group.count);
        let mut next = BinaryHeap::new();
        for node in among {
            let fits = fit.pods(*node, group.count);
            short = short.saturating_sub(u64::from(fits));
            let had: Cost = survey.lines.iter().map(|_| 0).collect();
            next.extend(self.one_more(survey, *node, (fits, &had)));
        }
        let mut sum: Cost = survey.lines.iter().map(|_| 0).collect();
        let mut freed: BTreeMap<NodeIdx, Cost> = BTreeMap::new();
        while short > 0 {
            let Reverse((cost, _, node, pods, all)) = next.pop()?;
            for (sum, cost) in sum.iter_mut().zip(&cost) {
                *sum = sum.saturating_add(*cost);
            }
            next.extend(self.one_more(survey, node, (pods, &all)));
            freed.insert(node, all);
            short = short.saturating_sub(1);
        }
        Some((sum, freed.into_iter().collect()))
    }

    /// What one pod more on a node costs that has room for so many once that is free.
    #[allow(clippy::type_complexity, reason = "what is sorted by, and what it is")]
    fn one_more(
        &self,
        survey: &Survey,
        node: NodeIdx,
        (pods, had): (u32, &Cost),
    ) -> Option<Reverse<(Cost, u32, NodeIdx, u32, Cost)>> {
        let pods = pods.checked_add(1)?;
        let mut all = Cost::new();
        for line in &survey.lines {
            let resource = line.asked.resource;
            let free = i128::from(self.nodes.free(resource, node));
            let missing = line.asked.needs(u64::from(pods)).saturating_sub(free);
            let (gangs, others) = self.nodes.held(resource, node);
            if missing > gangs.saturating_add(others) {
                return None;
            }
            all.push(missing.max(0));
        }
        let more = all.iter().zip(had);
        let cost = more.map(|(all, had)| all.saturating_sub(*had)).collect();
        Some(Reverse((cost, self.nodes.rank_of(node), node, pods, all)))
    }
}
