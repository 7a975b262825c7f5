//! Pack: puts identical pods on the nodes where they cause the least fragmentation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ranking::{ClassRank, CurrentRanking, NodeChoice};
use super::request::PodRuns;
use super::slice_keeper::SliceKeeper;
use crate::state::{ConstraintSignature, NodeClass, NodeIdx};

/// Fills node by node: first the nodes that lose the fewest free slices, then the node where each
/// pod causes the least fragmentation, then the best fit, then by name. Preferences of the pods
/// among nodes come before all of these, as in Kubernetes.
///
/// There must be at least one pod. None: the nodes do not hold all pods. The result is exact,
/// because identical pods do not compete for different resources.
pub(super) fn fill(
    ranked: &CurrentRanking<'_>,
    count: u32,
    signature: &ConstraintSignature,
    allows: &dyn Fn(NodeIdx) -> bool,
) -> Option<PodRuns> {
    if signature.has_tiers() {
        return fill_by_tier(ranked, count, signature, allows);
    }
    let mut left = count;
    let mut runs = PodRuns::new();
    let mut keeper: Option<SliceKeeper<'_>> = None;
    let has_slices = |class: &&NodeClass| ranked.free_slices().has_room(&class.profile);
    let mut classes = ranked.iter().peekable();
    while let Some((order, class)) = classes.next() {
        let mut equals = vec![class];
        while let Some((_, equal)) = classes.next_if(|(next, _)| *next == order) {
            equals.push(equal);
        }
        let members = members_by_name(&equals).filter(|(node, _)| allows(*node));
        if keeper.is_some() || equals.iter().any(has_slices) {
            let start = || SliceKeeper::new(ranked, left, std::mem::take(&mut runs));
            let keeper = keeper.get_or_insert_with(start);
            keeper.take_without_loss(order, members.map(|(node, _)| node));
            if keeper.is_done() {
                break;
            }
            continue;
        }
        for (node, class) in members {
            let pods = ranked.fits(class, left);
            left = left.saturating_sub(pods);
            runs.push((node, pods));
            if left == 0 {
                return Some(runs);
            }
        }
    }
    let mut keeper = keeper?;
    keeper.take_with_least_loss();
    keeper.into_runs()
}

/// Returns the members of several classes, by name.
fn members_by_name<'a>(
    classes: &[&'a NodeClass],
) -> impl Iterator<Item = (NodeIdx, &'a NodeClass)> + use<'a> {
    let mut members: Vec<_> = classes.iter().map(|c| (c.members.iter(), *c)).collect();
    let mut heads = BinaryHeap::new();
    for (at, (members, _)) in members.iter_mut().enumerate() {
        heads.extend(members.next().map(|head| Reverse((*head, at))));
    }
    std::iter::from_fn(move || {
        let Reverse(((_, node), at)) = heads.pop()?;
        let (members, class) = members.get_mut(at)?;
        heads.extend(members.next().map(|head| Reverse((*head, at))));
        Some((node, *class))
    })
}

fn fill_by_tier(
    ranked: &CurrentRanking<'_>,
    count: u32,
    signature: &ConstraintSignature,
    allows: &dyn Fn(NodeIdx) -> bool,
) -> Option<PodRuns> {
    let all = ranked
        .iter()
        .flat_map(|(order, class)| {
            let pods = ranked.fits(class, count);
            let members = class.members.iter();
            members.map(move |(rank, node)| (order, *rank, *node, pods))
        })
        .filter(|(_, _, node, _)| allows(*node))
        .map(|(order, rank, node, pods)| (signature.tier(node), order, rank, node, pods))
        .collect();
    fill_in_order(ranked, all, count)
}

/// Fills already chosen nodes, in the same order.
pub(super) fn fill_in_order(
    ranked: &CurrentRanking<'_>,
    mut all: Vec<NodeChoice<ClassRank>>,
    count: u32,
) -> Option<PodRuns> {
    all.sort_unstable();
    if !ranked.free_slices().is_empty() {
        let mut keeper = SliceKeeper::new(ranked, count, PodRuns::new());
        for tier in all.chunk_by(|a, b| a.0 == b.0) {
            for equals in tier.chunk_by(|a, b| a.1 == b.1) {
                let rank = equals.first().map(|(_, rank, ..)| *rank)?;
                keeper.take_without_loss(rank, equals.iter().map(|(.., node, _)| *node));
            }
            keeper.take_with_least_loss();
        }
        return keeper.into_runs();
    }
    let mut left = count;
    let mut runs = PodRuns::new();
    for (.., node, pods) in all {
        let pods = pods.min(left);
        left = left.saturating_sub(pods);
        runs.push((node, pods));
        if left == 0 {
            return Some(runs);
        }
    }
    None
}
