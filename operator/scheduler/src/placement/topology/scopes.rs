//! The domains that a gang of several groups is tried in.

use std::cmp::Reverse;
use std::ops::Range;

use super::super::fit::Room;
use super::super::pack::Runs;
use super::super::place::{by_size, share};
use super::attempt::Attempt;
use super::{Counts, Near, enough};
use crate::state::{Layout, NodeIdx};

/// Last domains that are tried for one set of others.
const LAST: usize = 4;

/// A domain that could take part, with how much of the gang it holds: pods of each
/// group by their share of what the nodes have.
struct Part {
    holds: u128,
    domain: Range<usize>,
}

impl Attempt<'_> {
    /// In one domain of the level or a finer one, the finest first, then the
    /// tightest.
    pub(super) fn in_one(&mut self, near: &Near) -> Option<Vec<Runs>> {
        let layout = &near.level.layout;
        let counts = self.counts(layout);
        for depth in (near.level.depth..layout.depths()).rev() {
            for domain in self.candidates(layout, depth, &counts) {
                let placed = self.scope(layout.stretch(domain));
                if placed.is_some() {
                    return placed;
                }
            }
        }
        None
    }

    /// The domains of a level that hold each group alone and have enough for all,
    /// tightest first: by pods of the group with the largest pods, then the next.
    fn candidates(&self, layout: &Layout, depth: usize, counts: &Counts) -> Vec<Range<usize>> {
        let shape = self.wish.shape;
        let order = by_size(self.nodes, shape);
        let holds = |domain: &Range<usize>| {
            counts.hold_each(shape, domain)
                && enough(
                    self.nodes,
                    shape,
                    layout.stretch(domain.clone()),
                    Room::Free,
                )
        };
        let mut candidates: Vec<Range<usize>> = layout.domains(depth).filter(holds).collect();
        // Stable: of equal ones the first by name.
        candidates.sort_by_cached_key(|domain| -> Vec<u64> {
            order.iter().map(|(at, _)| counts.of(*at, domain)).collect()
        });
        candidates
    }

    /// In as few domains of the level as groups of unlike pods are placed in one
    /// after another: those that hold most of the gang, and last the tightest that
    /// holds the rest.
    pub(super) fn in_few(&mut self, near: &Near) -> Option<Vec<Runs>> {
        let layout = &near.level.layout;
        let counts = self.counts(layout);
        let mut parts = self.parts(layout, near.level.depth, &counts);
        // Stable: of equal ones the first by name.
        parts.sort_by_key(|part| Reverse(part.holds));
        let mut chosen = Vec::new();
        // Tries get rarer, so that a gang that fits nowhere costs few of them.
        let (mut pause, mut tries) = (0_usize, 0_usize);
        for (at, part) in parts.iter().enumerate() {
            let open = parts.get(at..).unwrap_or(&[]);
            if pause > 0 {
                pause = pause.saturating_sub(1);
            } else {
                let last = self.last(&chosen, open, &counts);
                for last in &last {
                    let mut among: Vec<NodeIdx> = Vec::new();
                    for domain in chosen.iter().chain([last]) {
                        among.extend(layout.stretch(domain.clone()));
                    }
                    let placed = self.greedy(&among);
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

    fn parts(&self, layout: &Layout, depth: usize, counts: &Counts) -> Vec<Part> {
        let groups = self.wish.shape.groups.iter().enumerate();
        let groups: Vec<(usize, u64, u128)> = groups
            .map(|(at, group)| (at, u64::from(group.count), share(self.nodes, group)))
            .collect();
        let parts = layout.domains(depth).map(|domain| {
            let holds = groups.iter().fold(0_u128, |sum, (at, count, share)| {
                let pods = u128::from(counts.of(*at, &domain).min(*count));
                sum.saturating_add(pods.saturating_mul(*share))
            });
            Part { holds, domain }
        });
        parts.filter(|part| part.holds > 0).collect()
    }

    /// The domains that complete the chosen ones, tightest first: with one of them
    /// each group alone fits.
    fn last(&self, chosen: &[Range<usize>], open: &[Part], counts: &Counts) -> Vec<Range<usize>> {
        let groups = self.wish.shape.groups.iter().enumerate();
        let rest: Vec<(usize, u64)> = groups
            .map(|(at, group)| {
                let held = chosen.iter().map(|domain| counts.of(at, domain));
                let held = held.fold(0, u64::saturating_add);
                (at, u64::from(group.count).saturating_sub(held))
            })
            .collect();
        let completes = |part: &&Part| {
            let mut rest = rest.iter();
            rest.all(|(at, pods)| counts.of(*at, &part.domain) >= *pods)
        };
        let mut last: Vec<&Part> = open.iter().filter(completes).collect();
        last.sort_by_key(|part| part.holds);
        let last = last.into_iter().map(|part| part.domain.clone());
        last.take(LAST).collect()
    }
}
