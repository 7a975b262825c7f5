//! The least room to free, and the nodes to free it on, so that a gang has a place.

mod amounts;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use amounts::{
    NextSlice, NodeRequests, PlacedRequests, ReleaseAmounts, add_amounts, compare_costs, shortfall,
};

use super::context::ExplanationContext;
use super::survey::{FreeResource, GroupSurvey};
use super::{NodeRelease, UnblockingChange};
use crate::placement::{GangTopology, GroupSlices, ResolvedLayer, ResolvedRequest};
use crate::state::{DomainLevel, NodeIdx};

/// The cost of putting a group on some nodes, and the amounts requested of these nodes then.
type GroupRelease = (ReleaseAmounts, Vec<(NodeIdx, ReleaseAmounts)>);

/// The same for all groups.
type GangRelease = (ReleaseAmounts, NodeRequests);

/// The pods of one group.
struct GroupToPlace<'s> {
    per_pod: ReleaseAmounts,
    count: u32,
    nodes: &'s [NodeIdx],
    near: Option<&'s ResolvedRequest>,
    slices: Option<GroupSlices<'s>>,
}

struct LeastRelease<'a> {
    question: &'a ExplanationContext<'a>,
    /// The resources that any group requests: devices first, then by name.
    lines: Vec<&'a FreeResource>,
}

impl ExplanationContext<'_> {
    /// Finds the least room to free, and the nodes to free it on. For a gang of one group the
    /// result is exact; for a gang of several groups it is the smallest result of several attempts.
    /// It visits each node that matches a group once, and again for each pod that finds no room and
    /// for each slice of its domain.
    pub(super) fn find_least_release(&self, surveys: &[GroupSurvey]) -> Option<UnblockingChange> {
        let close = GangTopology::for_shape(self.nodes, self.shape)?;
        let mut lines: Vec<&FreeResource> = Vec::new();
        for line in surveys.iter().flat_map(|survey| &survey.resources) {
            let resource = line.need.resource;
            if self.nodes.shared_device(resource).is_some() {
                return None;
            }
            if lines.iter().all(|known| known.need.resource != resource) {
                lines.push(line);
            }
        }
        if surveys.len() > 1 {
            lines.sort_by_key(|line| (!line.need.name.is_device(), &line.need.name));
        }
        let each = |survey: &GroupSurvey| -> ReleaseAmounts {
            let need = |line: &&FreeResource| {
                let mut own = survey.resources.iter();
                let own = own.find(|own| own.need.resource == line.need.resource);
                own.map_or(0, |own| own.need.per_pod)
            };
            lines.iter().map(need).collect()
        };
        let groups = self.shape.groups.iter().zip(surveys).enumerate();
        let groups = groups.filter(|(_, (group, _))| group.count > 0);
        let mut groups: Vec<GroupToPlace<'_>> = groups
            .map(|(at, (group, survey))| GroupToPlace {
                per_pod: each(survey),
                count: group.count,
                nodes: &survey.nodes,
                near: close.group_request(at).filter(|near| near.is_required()),
                slices: close.slices(self.shape, at),
            })
            .collect();
        let freeing = LeastRelease {
            question: self,
            lines,
        };
        let near = close.gang.as_ref().filter(|near| near.is_required());
        // The largest pods have the fewest possible places, so the best order usually has them
        // first. The reverse order is also tried.
        groups.sort_by(|a, b| b.per_pod.cmp(&a.per_pod));
        let mut found = freeing.cheapest_placement(&groups, near);
        if groups.len() > 1 {
            groups.reverse();
            let other = freeing.cheapest_placement(&groups, near);
            found = [found, other].into_iter().flatten().min_by(compare_costs);
        }
        freeing.to_change(&found?.1)
    }
}

impl LeastRelease<'_> {
    fn zero_amounts(&self) -> ReleaseAmounts {
        self.lines.iter().map(|_| 0).collect()
    }

    /// Returns the placement of the whole gang that requires the least room to free.
    fn cheapest_placement(
        &self,
        groups: &[GroupToPlace<'_>],
        near: Option<&ResolvedRequest>,
    ) -> Option<GangRelease> {
        let Some(near) = near else {
            return self.place_groups(groups.iter().map(|group| (group, group.nodes)));
        };
        // Sort nodes into domains only once, because there may be many domains, such as one per
        // rack.
        let apart: Vec<_> = groups
            .iter()
            .map(|g| group_by_domain(g.nodes, &near.level))
            .collect();
        let all: BTreeSet<u32> = apart.iter().flat_map(BTreeMap::keys).copied().collect();
        let put = all.into_iter().filter_map(|domain| {
            let within = groups.iter().zip(&apart).map(|(group, apart)| {
                let nodes = apart.get(&domain);
                (group, nodes.map_or(&[][..], Vec::as_slice))
            });
            self.place_groups(within)
        });
        put.min_by(compare_costs)
    }

    /// Puts one group after another on the cheapest of the nodes given for it.
    fn place_groups<'g>(
        &self,
        groups: impl Iterator<Item = (&'g GroupToPlace<'g>, &'g [NodeIdx])>,
    ) -> Option<GangRelease> {
        let mut asked = PlacedRequests::default();
        let mut sum = self.zero_amounts();
        for (group, nodes) in groups {
            let put = match group.near {
                None => self.place_slices(group, nodes, &asked),
                Some(near) => {
                    let apart = group_by_domain(nodes, &near.level);
                    let put = apart
                        .values()
                        .filter_map(|nodes| self.place_slices(group, nodes, &asked));
                    put.min_by(compare_costs)
                }
            };
            let (cost, nodes) = put?;
            sum = add_amounts(&sum, &cost, 1);
            asked.own.extend(nodes);
        }
        Some((sum, asked.own))
    }

    /// Does the same as [`LeastRelease::place_pods`] for all pods of a group, each slice in one
    /// domain.
    fn place_slices(
        &self,
        group: &GroupToPlace<'_>,
        nodes: &[NodeIdx],
        asked: &PlacedRequests<'_>,
    ) -> Option<GroupRelease> {
        let Some(split) = group.slices else {
            return self.place_pods(group, group.count, nodes, asked);
        };
        let mut nodes = nodes.to_vec();
        nodes.sort_unstable_by_key(|node| split.layout.position(*node));
        let layers = split.slices.layers();
        self.place_layers(group, (group.count, layers), &nodes, asked)
    }

    /// Places the slices of the first layer one by one, each in the domain where it costs least. A
    /// second slice in a domain never costs less than the first, so this is optimal. The first slice of
    /// a domain with overbooked nodes also pays for these. The nodes are in the order of the topology.
    fn place_layers(
        &self,
        group: &GroupToPlace<'_>,
        (count, layers): (u32, &[ResolvedLayer]),
        nodes: &[NodeIdx],
        asked: &PlacedRequests<'_>,
    ) -> Option<GroupRelease> {
        let Some(((layer, inner), split)) = layers.split_first().zip(group.slices) else {
            return self.place_pods(group, count, nodes, asked);
        };
        let domain = |node: &NodeIdx| split.layout.domain(layer.depth, *node);
        let domains = nodes.chunk_by(|one, other| domain(one) == domain(other));
        // A node without the label is in no domain.
        let domains = domains.filter(|nodes| nodes.first().is_some_and(|n| domain(n).is_some()));
        let domains: Vec<&[NodeIdx]> = domains.collect();
        let mut asked = PlacedRequests {
            own: NodeRequests::new(),
            earlier: Some(asked),
        };
        let mut sum = self.zero_amounts();
        let mut left = count;
        let next_slice = |domain: usize, pods: u32, asked: &PlacedRequests<'_>| {
            let nodes = domains.get(domain)?;
            let (cost, nodes) = self.place_layers(group, (pods, inner), nodes, asked)?;
            let nodes = Some(nodes);
            Some(Reverse(NextSlice {
                cost,
                domain,
                nodes,
            }))
        };
        let first = layer.pods.min(left);
        let mut slices: BinaryHeap<Reverse<NextSlice>> = (0..domains.len())
            .filter_map(|domain| next_slice(domain, first, &asked))
            .collect();
        while left > 0 {
            let pods = layer.pods.min(left);
            let Reverse(NextSlice {
                cost,
                domain,
                nodes,
            }) = slices.pop()?;
            let Some(nodes) = nodes else {
                slices.extend(next_slice(domain, pods, &asked));
                continue;
            };
            sum = add_amounts(&sum, &cost, 1);
            asked.own.extend(nodes);
            left = left.saturating_sub(pods);
            // The next slice may be in another domain, so its cost is computed only if it is needed.
            let is_overbooked = domains
                .get(domain)
                .is_some_and(|nodes| self.is_overbooked(nodes));
            slices.push(Reverse(NextSlice {
                cost: if is_overbooked {
                    self.zero_amounts()
                } else {
                    cost
                },
                domain,
                nodes: None,
            }));
        }
        Some((sum, asked.own.into_iter().collect()))
    }

    /// True if some of these nodes have less than nothing free.
    fn is_overbooked(&self, nodes: &[NodeIdx]) -> bool {
        let mut lines = self.lines.iter();
        lines.any(|line| {
            let free = |node: &NodeIdx| self.question.nodes.free(line.need.resource, *node);
            nodes.iter().any(|node| free(node) < 0)
        })
    }

    /// Returns the least that makes room for pods of a group on these nodes. Amounts are compared
    /// resource by resource, in order. A second pod on a node never costs less than the first, so
    /// taking the cheapest pod each time is optimal. A group of n pods needs only the n nodes where
    /// the first pod is cheapest. None: the group does not fit even if all pods leave.
    fn place_pods(
        &self,
        group: &GroupToPlace<'_>,
        count: u32,
        nodes: &[NodeIdx],
        asked: &PlacedRequests<'_>,
    ) -> Option<GroupRelease> {
        let none = self.zero_amounts();
        let before = |node: &NodeIdx| asked.get(node).unwrap_or(&none);
        let had = |node: &NodeIdx, pods: u32| add_amounts(before(node), &group.per_pod, pods);
        let mut left = count;
        // The pods on each of the nodes.
        let mut put: Vec<u32> = vec![0; nodes.len()];
        let fits = |(at, node): (usize, &NodeIdx)| {
            let pods = self.count_fitting(group, *node, before(node));
            (pods > 0).then_some((self.question.nodes.position_by_name(*node), at, pods))
        };
        let mut roomy: Vec<(u32, usize, u32)> = nodes.iter().enumerate().filter_map(fits).collect();
        // Nodes are filled in the order of their names.
        roomy.sort_unstable();
        for (_, at, pods) in roomy {
            let pods = pods.min(left);
            left = left.saturating_sub(pods);
            if let Some(put) = put.get_mut(at) {
                *put = pods;
            }
        }
        let next_cost = |at: usize, pods: u32| {
            let node = nodes.get(at)?;
            let cost = self.next_pod_cost(group, *node, &had(node, pods))?;
            Some((cost, self.question.nodes.position_by_name(*node), at))
        };
        let mut cheapest = BinaryHeap::new();
        for (at, pods) in put.iter().enumerate().filter(|_| left > 0) {
            let Some(next) = next_cost(at, *pods) else {
                continue;
            };
            if cheapest.len() < usize::try_from(left).unwrap_or(usize::MAX) {
                cheapest.push(next);
            } else if let Some(mut dearest) = cheapest.peek_mut()
                && next < *dearest
            {
                *dearest = next;
            }
        }
        let mut next: BinaryHeap<_> = cheapest.into_iter().map(Reverse).collect();
        let mut sum = none.clone();
        while left > 0 {
            let Reverse((cost, _, at)) = next.pop()?;
            sum = add_amounts(&sum, &cost, 1);
            let pods = put.get_mut(at)?;
            *pods = pods.saturating_add(1);
            next.extend(next_cost(at, *pods).map(Reverse));
            left = left.saturating_sub(1);
        }
        let used = nodes.iter().zip(put).filter(|(_, pods)| *pods > 0);
        let used = used.map(|(node, pods)| (*node, had(node, pods)));
        Some((sum, used.collect()))
    }

    /// Returns how many pods fit without freeing more.
    fn count_fitting(
        &self,
        group: &GroupToPlace<'_>,
        node: NodeIdx,
        before: &ReleaseAmounts,
    ) -> u32 {
        let mut most = i64::from(group.count);
        for ((line, before), each) in self.lines.iter().zip(before).zip(&group.per_pod) {
            if *each > 0 {
                let free = self.question.nodes.free(line.need.resource, node);
                let free = free.saturating_sub(*before);
                if free < *each {
                    return 0;
                }
                most = most.min(free.checked_div(*each).unwrap_or(0));
            }
        }
        u32::try_from(most).unwrap_or(0)
    }

    /// Returns the cost of one more pod on a node where pods already request `had`. None: the pod does
    /// not fit even if all pods leave.
    fn next_pod_cost(
        &self,
        group: &GroupToPlace<'_>,
        node: NodeIdx,
        had: &ReleaseAmounts,
    ) -> Option<ReleaseAmounts> {
        let mut cost = ReleaseAmounts::new();
        for ((line, had), each) in self.lines.iter().zip(had).zip(&group.per_pod) {
            if *each == 0 {
                cost.push(0);
                continue;
            }
            let resource = line.need.resource;
            let free = self.question.nodes.free(resource, node);
            let missing = shortfall(free, had.saturating_add(*each));
            if missing > 0 {
                let (gangs, others) = self.question.nodes.usage(resource, node);
                if i128::from(missing) > gangs.saturating_add(others) {
                    return None;
                }
            }
            cost.push(missing.saturating_sub(shortfall(free, *had)));
        }
        Some(cost)
    }

    fn to_change(&self, asked: &NodeRequests) -> Option<UnblockingChange> {
        let mut nodes = Vec::new();
        for (node, all) in asked {
            let amounts: Vec<_> = self
                .lines
                .iter()
                .zip(all)
                .map(|(line, all)| {
                    let free = self.question.nodes.free(line.need.resource, *node);
                    (line, i128::from(shortfall(free, *all)))
                })
                .filter(|(_, amount)| *amount > 0)
                .map(|(line, amount)| (line.need.name.clone(), amount))
                .collect();
            if !amounts.is_empty() {
                let node = self.question.nodes.name(*node).clone();
                nodes.push(NodeRelease { node, amounts });
            }
        }
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        (!nodes.is_empty()).then_some(UnblockingChange::Free(nodes))
    }
}

/// Returns the nodes of each domain, in their order. A node without the label is in no domain.
fn group_by_domain(nodes: &[NodeIdx], level: &DomainLevel) -> BTreeMap<u32, Vec<NodeIdx>> {
    let mut domains: BTreeMap<u32, Vec<NodeIdx>> = BTreeMap::new();
    for node in nodes {
        if let Some(domain) = level.layout.domain(level.depth, *node) {
            domains.entry(domain).or_default().push(*node);
        }
    }
    domains
}
