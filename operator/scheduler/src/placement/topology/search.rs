//! Bounded search for a placement that meets the required levels. It tries each group that must be
//! in one domain in each domain. For each choice of domains it tries the groups together in every
//! way.

use std::collections::BTreeSet;

use super::super::frontier::{SearchNodes, SearchResult, search_in};
use super::super::group_fit::{CapacityView, GroupFit};
use super::super::request::PodRuns;
use super::best_fit::FreeLookup;
use super::domain_counts::has_enough;
use super::gang_topology::{GangTopology, ResolvedRequest};
use super::seats::{Seat, SeatRow};
use crate::state::{Catalog, GangShape, GroupShape, NodeIdx, Nodes};

/// Maximum number of choices of domains to try on one set of nodes.
const MAX_CHOICES: usize = 1_024;

/// A group that must be in one domain, and the domains that hold it, best fit first.
struct DomainChoice<'a> {
    group: usize,
    near: &'a ResolvedRequest,
    domains: Vec<u32>,
}

/// Looks for a place in any domain that the gang may be in.
pub(crate) fn search(
    nodes: &Nodes,
    catalog: &Catalog,
    (shape, excluded): (&GangShape, &[NodeIdx]),
    close: &GangTopology,
    room: CapacityView,
) -> SearchResult {
    let mut spent = 0;
    let mut scope = |among: &[NodeIdx]| {
        let wish = (shape, excluded);
        search_scope(nodes, catalog, wish, close, (among, room), &mut spent)
    };
    let Some(near) = close.gang.as_ref().filter(|near| near.is_required()) else {
        let all: Vec<NodeIdx> = nodes.iter().map(|(node, _)| node).collect();
        return scope(&all);
    };
    let layout = &near.level.layout;
    let mut sure = true;
    for domain in layout.domains(near.level.depth) {
        match scope(layout.nodes_in(domain)) {
            SearchResult::Placed(runs) => return SearchResult::Placed(runs),
            SearchResult::NoPlace { certain } => sure &= certain,
        }
    }
    SearchResult::NoPlace { certain: sure }
}

/// Searches on these nodes, without regard to the request of the gang as a whole.
pub(super) fn search_scope(
    nodes: &Nodes,
    catalog: &Catalog,
    (shape, excluded): (&GangShape, &[NodeIdx]),
    close: &GangTopology,
    (among, room): (&[NodeIdx], CapacityView),
    spent: &mut usize,
) -> SearchResult {
    let none = SearchResult::NoPlace { certain: true };
    if !has_enough(nodes, shape, among, room) {
        return none;
    }
    let Some(slices) = close.all_slices(shape) else {
        return SearchResult::NoPlace { certain: false };
    };
    let among = among.iter().copied().filter(|n| !excluded.contains(n));
    let among: Vec<NodeIdx> = match slices.iter().flatten().next() {
        None => nodes.sort_by_tightness(among),
        Some(split) => {
            let mut among: Vec<NodeIdx> = among.collect();
            among.sort_unstable_by_key(|node| split.layout.position(*node));
            among
        }
    };
    let mut choices: Vec<DomainChoice<'_>> = Vec::new();
    let mut alone: Vec<PodRuns> = Vec::new();
    for (at, group) in shape.groups.iter().enumerate() {
        let fits = fitting_nodes(nodes, catalog, group, &among, room);
        let near = close.group_request(at).filter(|near| near.is_required());
        let fits = match near.filter(|_| group.count > 0) {
            None => fits,
            Some(near) => {
                let domains = fitting_domains(nodes, catalog, near, (group, &fits));
                let first = domains.first().copied();
                choices.push(DomainChoice {
                    group: at,
                    near,
                    domains,
                });
                let inside = |(node, _): &(NodeIdx, u32)| domain_of_node(near, *node) == first;
                fits.into_iter()
                    .filter(|fit| first.is_some() && inside(fit))
                    .collect()
            }
        };
        match take_pods(&fits, group.count) {
            Some(runs) => alone.push(runs),
            None => return none,
        }
    }
    if slices.is_empty() && shape.groups.iter().filter(|g| g.count > 0).count() < 2 {
        return SearchResult::Placed(alone);
    }
    let field = SearchNodes {
        nodes: &among,
        allows: &|_, _| true,
        view: room,
        slices: &slices,
    };
    try_every_choice(nodes, catalog, shape, &field, &choices, spent)
}

/// Tries every choice of a domain for each group that must be in one.
fn try_every_choice(
    nodes: &Nodes,
    catalog: &Catalog,
    shape: &GangShape,
    among: &SearchNodes<'_>,
    choices: &[DomainChoice<'_>],
    spent: &mut usize,
) -> SearchResult {
    let mut sure = true;
    let mut at = vec![0_usize; choices.len()];
    for _ in 0..MAX_CHOICES {
        let allows = |group: usize, node: NodeIdx| {
            let mut own = choices.iter().zip(&at).filter(|(c, _)| c.group == group);
            let in_domain = own.all(|(choice, at)| {
                choice.domains.get(*at).copied() == domain_of_node(choice.near, node)
            });
            let split = among.slices.get(group).and_then(Option::as_ref);
            in_domain && split.is_none_or(|split| split.allows(node))
        };
        let field = SearchNodes {
            allows: &allows,
            ..*among
        };
        *spent = spent.saturating_add(among.nodes.len());
        match search_in(nodes, catalog, shape, &field, spent) {
            SearchResult::Placed(runs) => return SearchResult::Placed(runs),
            SearchResult::NoPlace { certain } => sure &= certain,
        }
        if !advance_choice(&mut at, choices) {
            return SearchResult::NoPlace { certain: sure };
        }
    }
    SearchResult::NoPlace { certain: false }
}

/// Advances to the next choice. False: there is none.
fn advance_choice(at: &mut [usize], choices: &[DomainChoice<'_>]) -> bool {
    for (at, choice) in at.iter_mut().zip(choices).rev() {
        *at = at.saturating_add(1);
        if *at < choice.domains.len() {
            return true;
        }
        *at = 0;
    }
    false
}

fn domain_of_node(near: &ResolvedRequest, node: NodeIdx) -> Option<u32> {
    near.level.layout.domain(near.level.depth, node)
}

/// Returns the nodes that a group may use, each with the number of its pods that it holds.
fn fitting_nodes(
    nodes: &Nodes,
    catalog: &Catalog,
    group: &GroupShape,
    among: &[NodeIdx],
    room: CapacityView,
) -> Vec<(NodeIdx, u32)> {
    let Some(signature) = catalog.signature(group.signature) else {
        return Vec::new();
    };
    let fit = GroupFit::new(nodes, group, room);
    let allowed = among.iter().filter(|node| signature.allows(**node));
    allowed
        .map(|node| (*node, fit.count_fitting(*node, group.count)))
        .collect()
}

/// Returns the domains that hold all pods of a group, in the order in which the group alone would
/// take them. Domains that hold it in one domain of a finer level come first, then best fit
/// decides.
fn fitting_domains(
    nodes: &Nodes,
    catalog: &Catalog,
    near: &ResolvedRequest,
    (group, fits): (&GroupShape, &[(NodeIdx, u32)]),
) -> Vec<u32> {
    let Some(signature) = catalog.signature(group.signature) else {
        return Vec::new();
    };
    let layout = &near.level.layout;
    let free = FreeLookup::new(nodes, catalog, std::iter::once(group));
    let seat = |(node, pods): &(NodeIdx, u32)| Seat {
        position: layout.position(*node),
        node: *node,
        pods: *pods,
        free: free.get(*node),
    };
    let mut row: Vec<Seat> = fits.iter().map(seat).collect();
    row.sort_unstable_by_key(|seat| seat.position);
    let seats = SeatRow {
        layout,
        signature,
        slices: &near.slices,
        seats: &row,
    };
    let level = near.level.depth;
    let mut domains: Vec<u32> = Vec::new();
    let mut known = BTreeSet::new();
    for depth in (level..layout.depths()).rev() {
        for part in seats.domains_for(group.count, depth) {
            let first = row.get(part.seats.start);
            let domain = first.and_then(|seat| layout.domain_at(level, seat.position));
            domains.extend(domain.filter(|domain| known.insert(*domain)));
        }
    }
    domains
}

/// Takes `count` pods from the first nodes that hold them.
fn take_pods(fits: &[(NodeIdx, u32)], count: u32) -> Option<PodRuns> {
    let mut left = count;
    let mut runs = PodRuns::new();
    for (node, pods) in fits {
        if left == 0 {
            break;
        }
        let pods = (*pods).min(left);
        if pods > 0 {
            left = left.saturating_sub(pods);
            runs.push((*node, pods));
        }
    }
    (left == 0).then_some(runs)
}
