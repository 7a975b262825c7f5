//! Spread: puts identical pods on as many nodes as possible.

use super::ranking::{CurrentRanking, MostFree, NodeChoice};
use super::request::PodRuns;
use crate::state::{ConstraintSignature, NodeIdx};

/// Puts one pod on each node, then a second one, and so on: nodes with most free capacity first,
/// then by name. Preferred nodes are filled before other nodes.
///
/// None if the nodes do not hold all of the pods.
pub(super) fn fill(
    ranked: &CurrentRanking<'_>,
    count: u32,
    signature: &ConstraintSignature,
    allows: &dyn Fn(NodeIdx) -> bool,
) -> Option<PodRuns> {
    let mut all = Vec::new();
    for (order, class) in ranked.iter() {
        let most = ranked.fits(class, count);
        for (rank, node) in &class.members {
            if allows(*node) {
                all.push((
                    signature.tier(*node),
                    order.to_most_free(),
                    *rank,
                    *node,
                    most,
                ));
            }
        }
    }
    fill_in_order(all, count)
}

/// Fills already chosen nodes in the same way.
pub(super) fn fill_in_order(mut all: Vec<NodeChoice<MostFree>>, count: u32) -> Option<PodRuns> {
    all.sort_unstable();
    let mut left = count;
    let mut runs = PodRuns::new();
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
