//! The least that must become free, and on which nodes, for a gang to be placed.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use smallvec::SmallVec;

use super::capacity::Question;
use super::survey::{Line, Survey};
use super::{Change, FreeOn};
use crate::placement::{Closeness, Near};
use crate::state::NodeIdx;

/// An amount of each resource in [`Freeing::lines`], in their order.
type Amounts = SmallVec<[i64; 4]>;

/// Amounts that the pods put so far request of each node.
type Asked = BTreeMap<NodeIdx, Amounts>;

/// The cost of putting a group on some nodes, and the amounts requested of these nodes then.
type Put = (Amounts, Vec<(NodeIdx, Amounts)>);

/// The same for all groups.
type Place = (Amounts, Asked);

/// The pods of one group.
struct Pods<'s> {
    each: Amounts,
    count: u32,
    nodes: &'s [NodeIdx],
    near: Option<&'s Near>,
}

struct Freeing<'a> {
    question: &'a Question<'a>,
    /// The resources that any group requests: devices first, then by name.
    lines: Vec<&'a Line>,
}

impl Question<'_> {
    /// The least that must become free, and on which nodes. For a gang of one group nothing less
    /// would do; for a gang of several groups it is the smallest of the attempts. Looks once at
    /// each node that matches a group, and once more for each pod that finds no room.
    pub(super) fn least_to_free(&self, surveys: &[Survey]) -> Option<Change> {
        let close = Closeness::of(self.nodes, self.shape)?;
        let mut lines: Vec<&Line> = Vec::new();
        for line in surveys.iter().flat_map(|survey| &survey.lines) {
            let resource = line.asked.resource;
            if self.nodes.shared_device(resource).is_some() {
                return None;
            }
            if lines.iter().all(|known| known.asked.resource != resource) {
                lines.push(line);
            }
        }
        if surveys.len() > 1 {
            lines.sort_by_key(|line| (!line.asked.name.is_device(), &line.asked.name));
        }
        let each = |survey: &Survey| -> Amounts {
            let need = |line: &&Line| {
                let mut own = survey.lines.iter();
                let own = own.find(|own| own.asked.resource == line.asked.resource);
                own.map_or(0, |own| own.asked.need)
            };
            lines.iter().map(need).collect()
        };
        let groups = self.shape.groups.iter().zip(surveys).zip(&close.groups);
        let groups = groups.filter(|((group, _), _)| group.count > 0);
        let mut groups: Vec<Pods<'_>> = groups
            .map(|((group, survey), near)| Pods {
                each: each(survey),
                count: group.count,
                nodes: &survey.nodes,
                near: near.as_ref().filter(|near| near.is_required()),
            })
            .collect();
        let freeing = Freeing {
            question: self,
            lines,
        };
        let near = close.gang.as_ref().filter(|near| near.is_required());
        // The largest pods find the fewest places, so the best order usually has them first. The
        // reverse order is tried as well.
        groups.sort_by(|a, b| b.each.cmp(&a.each));
        let mut found = freeing.least(&groups, near);
        if groups.len() > 1 {
            groups.reverse();
            let other = freeing.least(&groups, near);
            found = [found, other].into_iter().flatten().min_by(cheaper);
        }
        freeing.change(&found?.1)
    }
}

impl Freeing<'_> {
    fn none(&self) -> Amounts {
        self.lines.iter().map(|_| 0).collect()
    }

    /// The placement of the whole gang for which least must be freed.
    fn least(&self, groups: &[Pods<'_>], near: Option<&Near>) -> Option<Place> {
        let Some(near) = near else {
            return self.all(groups.iter().map(|group| (group, group.nodes)));
        };
        // Nodes are sorted into domains once: there are as many domains as racks.
        let apart: Vec<_> = groups.iter().map(|g| by_domain(g.nodes, near)).collect();
        let all: BTreeSet<u32> = apart.iter().flat_map(BTreeMap::keys).copied().collect();
        let put = all.into_iter().filter_map(|domain| {
            let within = groups.iter().zip(&apart).map(|(group, apart)| {
                let nodes = apart.get(&domain);
                (group, nodes.map_or(&[][..], Vec::as_slice))
            });
            self.all(within)
        });
        put.min_by(cheaper)
    }

    /// Puts one group after another on the cheapest of the nodes that come with it.
    fn all<'g>(
        &self,
        groups: impl Iterator<Item = (&'g Pods<'g>, &'g [NodeIdx])>,
    ) -> Option<Place> {
        let mut asked = Asked::new();
        let mut sum = self.none();
        for (group, nodes) in groups {
            let put = match group.near {
                None => self.put(group, nodes, &asked),
                Some(near) => {
                    let apart = by_domain(nodes, near);
                    let put = apart
                        .values()
                        .filter_map(|nodes| self.put(group, nodes, &asked));
                    put.min_by(cheaper)
                }
            };
            let (cost, nodes) = put?;
            sum = plus(&sum, &cost, 1);
            asked.extend(nodes);
        }
        Some((sum, asked))
    }

    /// The least that makes room for a group on these nodes; the first resource counts first. A
    /// second pod on a node never costs less than the first, so taking the cheapest pod each time
    /// is optimal. Only as many nodes as there are pods can matter: those where the first pod is
    /// cheapest. None: the group does not fit even if all pods leave.
    fn put(&self, group: &Pods<'_>, nodes: &[NodeIdx], asked: &Asked) -> Option<Put> {
        let none = self.none();
        let before = |node: &NodeIdx| asked.get(node).unwrap_or(&none);
        let mut left = group.count;
        let mut put: BTreeMap<NodeIdx, Amounts> = BTreeMap::new();
        let fits = |node: &NodeIdx| (self.fits(group, *node, before(node)), *node);
        let roomy = nodes.iter().map(fits).filter(|(pods, _)| *pods > 0);
        let mut roomy: Vec<(u32, NodeIdx)> = roomy.collect();
        // Nodes fill up in order of name.
        roomy.sort_by_key(|(_, node)| self.question.nodes.rank_of(*node));
        for (pods, node) in roomy {
            let pods = pods.min(left);
            if pods == 0 {
                break;
            }
            left = left.saturating_sub(pods);
            put.insert(node, plus(before(&node), &group.each, pods));
        }
        let mut cheapest = BinaryHeap::new();
        for node in nodes.iter().filter(|_| left > 0) {
            let had = put.get(node).unwrap_or_else(|| before(node));
            let Some(next) = self.one_more(group, *node, had) else {
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
            let Reverse((cost, _, node)) = next.pop()?;
            sum = plus(&sum, &cost, 1);
            let had = put.get(&node).unwrap_or_else(|| before(&node));
            let all = plus(had, &group.each, 1);
            next.extend(self.one_more(group, node, &all).map(Reverse));
            put.insert(node, all);
            left = left.saturating_sub(1);
        }
        Some((sum, put.into_iter().collect()))
    }

    /// How many pods fit without freeing more.
    fn fits(&self, group: &Pods<'_>, node: NodeIdx, before: &Amounts) -> u32 {
        let mut most = i64::from(group.count);
        for ((line, before), each) in self.lines.iter().zip(before).zip(&group.each) {
            if *each > 0 {
                let free = self.question.nodes.free(line.asked.resource, node);
                let free = free.saturating_sub(*before);
                if free < *each {
                    return 0;
                }
                most = most.min(free.checked_div(*each).unwrap_or(0));
            }
        }
        u32::try_from(most).unwrap_or(0)
    }

    /// The cost of one more pod on a node of which `had` is requested already, and the tie-breaker
    /// between nodes of equal cost. None: the pod does not fit even if all pods leave.
    fn one_more(
        &self,
        group: &Pods<'_>,
        node: NodeIdx,
        had: &Amounts,
    ) -> Option<(Amounts, u32, NodeIdx)> {
        let mut cost = Amounts::new();
        for ((line, had), each) in self.lines.iter().zip(had).zip(&group.each) {
            if *each == 0 {
                cost.push(0);
                continue;
            }
            let resource = line.asked.resource;
            let free = self.question.nodes.free(resource, node);
            let missing = lacks(free, had.saturating_add(*each));
            if missing > 0 {
                let (gangs, others) = self.question.nodes.held(resource, node);
                if i128::from(missing) > gangs.saturating_add(others) {
                    return None;
                }
            }
            cost.push(missing.saturating_sub(lacks(free, *had)));
        }
        Some((cost, self.question.nodes.rank_of(node), node))
    }

    fn change(&self, asked: &Asked) -> Option<Change> {
        let mut nodes = Vec::new();
        for (node, all) in asked {
            let amounts: Vec<_> = self
                .lines
                .iter()
                .zip(all)
                .map(|(line, all)| {
                    let free = self.question.nodes.free(line.asked.resource, *node);
                    (line, i128::from(lacks(free, *all)))
                })
                .filter(|(_, amount)| *amount > 0)
                .map(|(line, amount)| (line.asked.name.clone(), amount))
                .collect();
            if !amounts.is_empty() {
                let node = self.question.nodes.name(*node).clone();
                nodes.push(FreeOn { node, amounts });
            }
        }
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        (!nodes.is_empty()).then_some(Change::Free(nodes))
    }
}

/// The nodes of each domain, in their order. A node without the label is in no domain.
fn by_domain(nodes: &[NodeIdx], near: &Near) -> BTreeMap<u32, Vec<NodeIdx>> {
    let mut domains: BTreeMap<u32, Vec<NodeIdx>> = BTreeMap::new();
    for node in nodes {
        if let Some(domain) = near.level.layout.domain(near.level.depth, *node) {
            domains.entry(domain).or_default().push(*node);
        }
    }
    domains
}

/// The amount that must become free to have `all`.
fn lacks(free: i64, all: i64) -> i64 {
    match all {
        0 => 0,
        all => all.saturating_sub(free).max(0),
    }
}

fn cheaper<T>(one: &(Amounts, T), other: &(Amounts, T)) -> Ordering {
    one.0.cmp(&other.0)
}

fn plus(one: &Amounts, other: &Amounts, times: u32) -> Amounts {
    let all = one.iter().zip(other);
    all.map(|(one, other)| one.saturating_add(other.saturating_mul(i64::from(times))))
        .collect()
}
