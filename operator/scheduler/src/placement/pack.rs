//! Pack: identical pods onto the tightest nodes that hold them.

use super::fit::{Fit, Room};
use crate::state::{Catalog, GroupShape, NodeIdx, Nodes, Signature};

/// Nodes with how many pods go onto each, in the order in which they were chosen.
pub(crate) type Runs = Vec<(NodeIdx, u32)>;

/// Fills node by node. Best fit: the node that leaves the fewest devices free,
/// then the smallest fraction of the cores, then by name; where pods of the group
/// prefer some nodes to others, that comes first, as in Kubernetes. Taking one
/// pod after the other would come to the same: a node that has taken one is
/// tighter than it was.
///
/// None where the nodes do not hold all of them. That is exact: identical pods
/// do not get into each other's way.
pub(crate) fn fill(
    nodes: &Nodes,
    catalog: &Catalog,
    group: &GroupShape,
    excluded: &[NodeIdx],
) -> Option<Runs> {
    let signature = catalog.signature(group.signature)?;
    let mut candidates = candidates(nodes, catalog, group, signature, excluded);
    if !signature.has_tiers() {
        return take(group.count, &mut candidates);
    }
    let mut all: Runs = candidates.collect();
    // Stable: within a tier the order of packing remains.
    all.sort_by_key(|(node, _)| signature.tier(*node));
    take(group.count, &mut all.into_iter())
}

/// Nodes that hold some of the pods, tightest first.
fn candidates<'a>(
    nodes: &'a Nodes,
    catalog: &'a Catalog,
    group: &'a GroupShape,
    signature: &'a Signature,
    excluded: &'a [NodeIdx],
) -> impl Iterator<Item = (NodeIdx, u32)> + 'a {
    let fit = Fit::new(nodes, group, Room::Free);
    let devices = group.device.map_or(0, |device| group.need(device));
    nodes
        .walk(group.device, devices, group.need(catalog.cpu()))
        .filter(|node| signature.allows(*node) && !excluded.contains(node))
        .map(move |node| (node, fit.pods(node, group.count)))
        .filter(|(_, pods)| *pods > 0)
}

fn take(count: u32, candidates: &mut dyn Iterator<Item = (NodeIdx, u32)>) -> Option<Runs> {
    let mut left = count;
    let mut runs = Runs::new();
    while left > 0 {
        let (node, pods) = candidates.next()?;
        let pods = pods.min(left);
        left = left.saturating_sub(pods);
        runs.push((node, pods));
    }
    Some(runs)
}
