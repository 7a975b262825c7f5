//! Spread: identical pods over as many nodes as there are.

use std::cmp::Reverse;

use super::pack::Runs;
use super::ranking::Ranked;
use crate::state::{NodeIdx, Signature, Tier};

/// A pod a node, then another one a node, and so on: the nodes with most free
/// first, then by name. Nodes that the pods prefer are filled before others.
///
/// None where the nodes do not hold all of them.
pub(super) fn fill(
    ranked: &Ranked<'_>,
    count: u32,
    signature: &Signature,
    allows: &dyn Fn(NodeIdx) -> bool,
) -> Option<Runs> {
    let mut all = Vec::new();
    for (order, class) in ranked.iter() {
        let most = ranked.fits(class, count);
        for (rank, node) in &class.members {
            if allows(*node) {
                all.push((signature.tier(*node), order.most_free(), *rank, *node, most));
            }
        }
    }
    in_order(all, count)
}

/// The same among some nodes, each with how many pods it holds.
pub(super) fn fill_among(
    ranked: &Ranked<'_>,
    count: u32,
    signature: &Signature,
    among: impl Iterator<Item = (NodeIdx, u32)>,
) -> Option<Runs> {
    let mut wanted = ranked.wanted();
    let all = among.filter_map(|(node, pods)| {
        let (order, _) = wanted(node)?;
        let free = order.most_free();
        Some((signature.tier(node), free, ranked.rank_of(node), node, pods))
    });
    in_order(all.collect(), count)
}

/// A node, how much it is wanted and how many pods it holds.
type Wanted = (Tier, Reverse<(i64, u32)>, u32, NodeIdx, u32);

fn in_order(mut all: Vec<Wanted>, count: u32) -> Option<Runs> {
    all.sort_unstable();
    let mut left = count;
    let mut runs = Runs::new();
    for tier in all.chunk_by(|a, b| a.0 == b.0) {
        let mut own: Vec<(NodeIdx, u32)> = tier.iter().map(|(.., node, _)| (*node, 0)).collect();
        let mut any = true;
        while left > 0 && std::mem::take(&mut any) {
            for ((_, pods), (.., most)) in own.iter_mut().zip(tier) {
                if left > 0 && *pods < *most {
                    *pods = pods.saturating_add(1);
                    left = left.saturating_sub(1);
                    any = true;
                }
            }
        }
        runs.extend(own.into_iter().filter(|(_, pods)| *pods > 0));
    }
    (left == 0).then_some(runs)
}
