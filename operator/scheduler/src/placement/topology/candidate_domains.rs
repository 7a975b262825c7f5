//! The domains in which a gang of several groups is tried.

use std::cmp::Reverse;
use std::ops::Range;

use super::super::group_fit::CapacityView;
use super::super::group_place::dominant_share;
use super::super::request::PodRuns;
use super::attempt::TopologyAttempt;
use super::best_fit::{FreeCapacity, FreeLookup, PreferenceDistance, TopologyRow};
use super::domain_counts::{DomainCounts, has_enough, min_domains};
use super::gang_topology::ResolvedRequest;
use crate::state::{GroupShape, Layout, NodeIdx};

/// Maximum number of last domains to try for one set of chosen domains.
const MAX_LAST_DOMAINS: usize = 4;

/// A domain that could be used, with the part of the gang that it holds: pods of each group
/// weighted by their share of the nodes' capacity.
#[derive(Clone)]
struct PartialDomain {
    holds: u128,
    domain: Range<usize>,
    /// Its rank by best fit.
    fit: usize,
}

impl TopologyAttempt<'_> {
    /// Tries one domain of the level or a finer one, the finest first, then the best fit. If the
    /// request prefers a finer level, the search skips the levels between the two.
    pub(super) fn place_in_one(&mut self, near: &ResolvedRequest) -> Option<Vec<PodRuns>> {
        let layout = &near.level.layout;
        let counts = self.count_pods(layout);
        let required = near.level.depth;
        let preferred = near.preferred_depth().filter(|finer| *finer > required);
        let first = preferred.unwrap_or(required);
        for depth in (first..layout.depths()).rev() {
            let mut domains = self.candidate_domains(layout, depth, &counts).into_iter();
            let placed = domains.find_map(|domain| self.place_in_scope(layout.nodes_in(domain)));
            if placed.is_some() {
                return placed;
            }
        }
        self.place_in_one_by_few(layout, (required, preferred?), &counts)
    }

    /// Tries one domain of the required level and, within it, as few domains of the preferred level
    /// as possible.
    fn place_in_one_by_few(
        &mut self,
        layout: &Layout,
        (required, preferred): (usize, usize),
        counts: &DomainCounts,
    ) -> Option<Vec<PodRuns>> {
        let whole = self.total_share();
        let parts = self.partial_domains(layout, preferred, counts, whole);
        let mut domains = self.candidate_domains(layout, required, counts);
        // The sort is stable: among domains that need equally few finer domains, the best fit comes
        // first.
        domains.sort_by_cached_key(|domain| {
            let parts = parts_within(&parts, domain).iter();
            min_domains(parts.map(|part| part.holds), whole)
        });
        domains.into_iter().find_map(|domain| {
            let parts = parts_within(&parts, &domain).to_vec();
            let few = self.place_in_few_of(layout, preferred, parts, counts);
            few.or_else(|| self.place_in_scope(layout.nodes_in(domain)))
        })
    }

    /// Returns the domains of a level that hold each group alone and have enough for all, best fit
    /// first.
    fn candidate_domains(
        &self,
        layout: &Layout,
        depth: usize,
        counts: &DomainCounts,
    ) -> Vec<Range<usize>> {
        let shape = self.request.shape;
        let holds = |domain: &Range<usize>| {
            counts.can_hold_each(shape, domain)
                && has_enough(
                    self.nodes,
                    shape,
                    layout.nodes_in(domain.clone()),
                    CapacityView::Free,
                )
        };
        let candidates = layout.domains(depth).filter(holds).collect();
        self.sorted(layout, depth, counts, candidates, Range::clone)
    }

    /// Sorts domains of a level that the gang may go into, best fit first.
    fn sorted<T>(
        &self,
        layout: &Layout,
        depth: usize,
        counts: &DomainCounts,
        domains: Vec<T>,
        stretch: impl Fn(&T) -> Range<usize>,
    ) -> Vec<T> {
        let wish = self.request;
        let groups = wish.shape.groups.iter();
        let free = FreeLookup::new(self.nodes, self.catalog, groups.clone());
        let signatures = groups.map(|group| (group, self.catalog.signature(group.signature)));
        let groups: Vec<_> = signatures
            .filter_map(|(group, signature)| Some((group, signature?)))
            .collect();
        let node = |at: usize| layout.nodes().get(at).copied();
        let usable = |node: &NodeIdx| {
            let mut groups = groups.iter().filter(|(group, _)| group.count > 0);
            !wish.excluded.contains(node) && groups.any(|(_, signature)| signature.allows(*node))
        };
        let row = TopologyRow {
            layout,
            len: layout.nodes().len(),
            position: |at: usize| u32::try_from(at).unwrap_or(u32::MAX),
            free_capacity: |at: usize| {
                let node = node(at).filter(usable);
                node.map_or_else(FreeCapacity::default, |node| free.get(node))
            },
            has_tiers: groups.iter().any(|(_, signature)| signature.has_tiers()),
        };
        let distance = |domain: &T| {
            let groups = groups.iter().enumerate();
            let distances = groups.map(|(at, (group, signature))| {
                let seats = stretch(domain).filter_map(|place| {
                    let pods = counts.get(at, &(place..place.saturating_add(1)));
                    Some((node(place)?, u32::try_from(pods).unwrap_or(u32::MAX)))
                });
                PreferenceDistance::for_pods(signature, u64::from(group.count), seats)
            });
            distances.fold(PreferenceDistance::default(), PreferenceDistance::plus)
        };
        row.sorted(depth, domains, &stretch, distance)
    }

    /// Tries few domains of the level.
    pub(super) fn place_in_few(&mut self, near: &ResolvedRequest) -> Option<Vec<PodRuns>> {
        let (layout, depth) = (&near.level.layout, near.level.depth);
        let counts = self.count_pods(layout);
        let parts = self.partial_domains(layout, depth, &counts, self.total_share());
        self.place_in_few_of(layout, depth, parts, &counts)
    }

    /// Places the groups in few of these domains: fills those first that hold most of
    /// the gang, then takes the best fit for the rest.
    fn place_in_few_of(
        &mut self,
        layout: &Layout,
        depth: usize,
        parts: Vec<PartialDomain>,
        counts: &DomainCounts,
    ) -> Option<Vec<PodRuns>> {
        let mut parts = self.sorted(layout, depth, counts, parts, |part| part.domain.clone());
        for (fit, part) in parts.iter_mut().enumerate() {
            part.fit = fit;
        }
        // The sort is stable: among equally large domains the best fit comes first.
        parts.sort_by_key(|part| Reverse(part.holds));
        let mut chosen = Vec::new();
        // Attempts become rarer, so that a gang that fits nowhere costs few attempts.
        let (mut pause, mut tries) = (0_usize, 0_usize);
        for (at, part) in parts.iter().enumerate() {
            let open = parts.get(at..).unwrap_or(&[]);
            if pause > 0 {
                pause = pause.saturating_sub(1);
            } else {
                let last = self.last_domains(&chosen, open, counts);
                for last in &last {
                    let mut among: Vec<NodeIdx> = Vec::new();
                    for domain in chosen.iter().chain([last]) {
                        among.extend(layout.nodes_in(domain.clone()));
                    }
                    let placed = self.place_greedily(&among);
                    if placed.is_some() {
                        return placed;
                    }
                }
                if !last.is_empty() {
                    pause = tries;
                    tries = tries.saturating_mul(2).saturating_add(1);
                }
            }
            chosen.push(part.domain.clone());
        }
        None
    }

    /// Returns each group with its number of pods and the share of the nodes' resources that one
    /// pod takes.
    fn group_shares(&self) -> Vec<(usize, u64, u128)> {
        let groups = self.request.shape.groups.iter().enumerate();
        let share = |(at, group): (usize, &GroupShape)| {
            (
                at,
                u64::from(group.count),
                dominant_share(self.nodes, group),
            )
        };
        groups.map(share).collect()
    }

    /// Returns the sum of the shares that all pods take of the nodes' resources.
    fn total_share(&self) -> u128 {
        let shares = self.group_shares().into_iter();
        shares.fold(0, |sum: u128, (_, count, share)| {
            sum.saturating_add(u128::from(count).saturating_mul(share))
        })
    }

    /// Returns the domains of a level that hold a part of `whole`.
    fn partial_domains(
        &self,
        layout: &Layout,
        depth: usize,
        counts: &DomainCounts,
        whole: u128,
    ) -> Vec<PartialDomain> {
        let groups = self.group_shares();
        let parts = layout.domains(depth).map(|domain| {
            let holds = groups.iter().fold(0_u128, |sum, (at, count, share)| {
                let pods = u128::from(counts.get(*at, &domain).min(*count));
                sum.saturating_add(pods.saturating_mul(*share))
            });
            PartialDomain {
                holds: holds.min(self.free_share(layout.nodes_in(domain.clone()), whole)),
                domain,
                fit: 0,
            }
        });
        parts.filter(|part| part.holds > 0).collect()
    }

    /// Returns the part of `whole` for which these nodes have enough of each resource. It is an
    /// upper bound: groups of unlike pods may fit one by one, but not all together.
    fn free_share(&self, among: &[NodeIdx], whole: u128) -> u128 {
        let total = self.request.shape.total.iter();
        let shares = total.map(|(resource, needs)| {
            let Some(column) = self.nodes.column(*resource) else {
                return 0;
            };
            let free = among
                .iter()
                .map(|node| i128::from(CapacityView::Free.amount(column, *node)));
            let free = free.fold(0, i128::saturating_add).clamp(0, *needs);
            let (free, needs) = (free.unsigned_abs(), needs.unsigned_abs());
            match free == needs {
                true => whole,
                false => whole
                    .saturating_mul(free)
                    .checked_div(needs)
                    .unwrap_or(whole),
            }
        });
        shares.min().unwrap_or(whole)
    }

    /// Returns the domains that complete the chosen ones, best fit first: each group alone fits in
    /// the chosen domains plus one of these.
    fn last_domains(
        &self,
        chosen: &[Range<usize>],
        open: &[PartialDomain],
        counts: &DomainCounts,
    ) -> Vec<Range<usize>> {
        let groups = self.request.shape.groups.iter().enumerate();
        let rest: Vec<(usize, u64)> = groups
            .map(|(at, group)| {
                let held = chosen.iter().map(|domain| counts.get(at, domain));
                let held = held.fold(0, u64::saturating_add);
                (at, u64::from(group.count).saturating_sub(held))
            })
            .collect();
        let completes = |part: &&PartialDomain| {
            let mut rest = rest.iter();
            rest.all(|(at, pods)| counts.get(*at, &part.domain) >= *pods)
        };
        let mut last: Vec<&PartialDomain> = open.iter().filter(completes).collect();
        last.sort_by_key(|part| part.fit);
        let last = last.into_iter().map(|part| part.domain.clone());
        last.take(MAX_LAST_DOMAINS).collect()
    }
}

/// Returns the parts that lie in a domain of a coarser level; parts are in the order of the
/// topology's row.
fn parts_within<'p>(parts: &'p [PartialDomain], domain: &Range<usize>) -> &'p [PartialDomain] {
    let start = parts.partition_point(|part| part.domain.start < domain.start);
    let end = parts.partition_point(|part| part.domain.start < domain.end);
    parts.get(start..end).unwrap_or(&[])
}
