//! Spread: identical pods over as many nodes as there are.

use super::pack::Runs;
use super::packing::Packing;
use crate::state::{Catalog, GroupShape, NodeIdx, Nodes};

/// A pod a node, then another one a node, and so on: the nodes with most free
/// first, then by name. Nodes that the pods prefer are filled before others.
///
/// None where the nodes do not hold all of them.
pub(crate) fn fill(
    nodes: &mut Nodes,
    packing: &mut Packing,
    catalog: &Catalog,
    group: &GroupShape,
    excluded: &[NodeIdx],
) -> Option<Runs> {
    if group.count == 0 {
        return Some(Runs::new());
    }
    let signature = catalog.signature(group.signature)?;
    let ranked = packing.rank(group, nodes, catalog)?;
    let mut all = Vec::new();
    for (order, class) in ranked.iter() {
        let most = ranked.fits(class, group.count);
        for (rank, node) in &class.members {
            if signature.allows(*node) && !excluded.contains(node) {
                all.push((signature.tier(*node), order.most_free(), *rank, *node, most));
            }
        }
    }
    all.sort_unstable();
    let mut left = group.count;
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
