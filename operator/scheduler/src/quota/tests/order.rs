//! Tests of the order of turns.

use std::cmp::Reverse;

use proptest::prelude::*;

use super::common::{
    cases, demand, empty, flavor_resource, ms, name, next_gang, queue, resource, tree,
};
use crate::quota::fair_share::decay::UsageDecay;
use crate::quota::fair_share::turn_order::TurnOrder;
use crate::quota::tree::QuotaTree;
use crate::quota::tree::queue_config::Weight;
use crate::state::QueueIdx;
use crate::time::Time;

/// Returns all leaves in the order of their turns, if each would start `next`.
fn turn_names(tree: &QuotaTree, leaves: &[&str], next: &str) -> Vec<String> {
    let mut order = TurnOrder::default();
    for leaf in leaves {
        order.insert(tree, tree.queue_idx(leaf), next_gang(next, 0));
    }
    let turn = || {
        let first = order.first(tree)?;
        order.remove(tree, first);
        Some(tree.name(first)?.to_string())
    };
    std::iter::from_fn(turn).collect()
}

fn tree_without_memory(queues: &[(&str, u32)]) -> QuotaTree {
    let mut tree = empty(UsageDecay::with_half_life(0));
    for (text, weight) in queues {
        let (of, mut member) = queue(text);
        member.weight = Weight::from_thousandths(*weight);
        tree.apply(&of, member);
    }
    tree.set_capacity(resource("gpu"), 100);
    tree
}

#[test]
fn queue_within_nominal_goes_before_a_borrowing_queue() {
    let mut tree = tree(&["c:", "a < c: gpu=4", "b < c: gpu=4", "other: gpu=2"]);
    tree.set_capacity(resource("gpu"), 10);
    tree.charge_queue("b: gpu=3");
    tree.charge_queue("other: gpu=1");
    tree.advance(ms(1_000_000_000));
    let turns = |tree: &QuotaTree, next| turn_names(tree, &["a", "b", "other"], next);
    // All leaves stay within nominal quota: the smaller share decides, at the roots first.
    assert_eq!(turns(&tree, "gpu=1"), ["other", "a", "b"]);
    // Now only `a` stays within nominal quota.
    assert_eq!(turns(&tree, "gpu=2"), ["a", "other", "b"]);
    tree.charge_queue("a: gpu=4");
    // Now all leaves except `a` stay within nominal quota, although `a` has used less than `b` so
    // far.
    assert_eq!(turns(&tree, "gpu=1"), ["other", "b", "a"]);
}

#[test]
fn shares_are_compared_level_by_level() {
    let mut tree = tree_without_memory(&[
        ("left", 1_000),
        ("right", 1_000),
        ("a < left", 1_000),
        ("b < left", 1_000),
        ("x < right", 1_000),
        ("y < right", 1_000),
    ]);
    for charge in ["a: gpu=1", "b: gpu=9", "x: gpu=5", "y: gpu=6"] {
        tree.charge_queue(charge);
    }
    // `left` holds 10 and `right` 11, so even `b` goes before `x`.
    let leaves = ["a", "b", "x", "y"];
    assert_eq!(turn_names(&tree, &leaves, "gpu=1"), ["a", "b", "x", "y"]);
    tree.charge_queue("a: gpu=2");
    assert_eq!(turn_names(&tree, &leaves, "gpu=1"), ["x", "y", "a", "b"]);
}

#[test]
fn weights_divide_and_names_break_ties() {
    let mut tree =
        tree_without_memory(&[("a", 1_000), ("b", 2_000), ("c", 500), ("d", 0), ("e", 0)]);
    let leaves = ["e", "d", "c", "b", "a"];
    assert_eq!(
        turn_names(&tree, &leaves, "gpu=1"),
        ["a", "b", "c", "d", "e"]
    );
    for charge in ["a: gpu=4", "b: gpu=6", "c: gpu=1", "d: gpu=1"] {
        tree.charge_queue(charge);
    }
    assert_eq!(
        turn_names(&tree, &leaves, "gpu=1"),
        ["c", "b", "a", "e", "d"]
    );
}

#[test]
fn priority_counts_before_share_only_within_quota() {
    let texts = [
        "r: gpu=4",
        "a < r: gpu=4",
        "b < r: gpu=4",
        "c < r: gpu=0",
        "d < r: gpu=0",
    ];
    let mut tree = tree_without_memory(&texts.map(|text| (text, 1_000)));
    for (text, priority) in [("b < r: gpu=4", 5), ("d < r: gpu=0", 9)] {
        let (of, mut config) = queue(text);
        config.priority = priority;
        tree.apply(&of, config);
    }
    tree.charge_queue("b: gpu=2");
    tree.charge_queue("d: gpu=1");
    let turns = |tree: &QuotaTree, next| turn_names(tree, &["a", "b", "c", "d"], next);
    // `a` and `b` stay within quota, so the priority of `b` counts. `c` and `d` borrow, so their
    // shares count.
    assert_eq!(turns(&tree, "gpu=1"), ["b", "a", "c", "d"]);
    // Now `b` borrows, too. All but `a` are ordered by share.
    tree.charge_queue("b: gpu=2");
    assert_eq!(turns(&tree, "gpu=1"), ["a", "c", "d", "b"]);
    // In a tree without quotas, no queue exceeds its quota.
    let mut open = tree_without_memory(&[("a", 1_000), ("b", 1_000)]);
    let (of, mut config) = queue("b");
    config.priority = 1;
    open.apply(&of, config);
    open.charge_queue("b: gpu=4");
    assert_eq!(turn_names(&open, &["a", "b"], "gpu=1"), ["b", "a"]);
}

#[test]
fn only_valid_leaves_have_turns() {
    let tree = tree(&["p", "a < p", "lost < nowhere", "own < own"]);
    let mut order = TurnOrder::default();
    for of in ["p", "lost", "own"] {
        order.insert(&tree, tree.queue_idx(of), next_gang("gpu=1", 0));
    }
    assert_eq!(order.first(&tree), None);
    order.remove(&tree, tree.queue_idx("p"));
    order.update_shares(&tree, tree.queue_idx("p"));
    order.insert(&tree, tree.queue_idx("a"), next_gang("gpu=1", 0));
    assert_eq!(order.first(&tree), Some(tree.queue_idx("a")));
}

const LEAVES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn forest(weights: &[u32], priorities: &[i32]) -> QuotaTree {
    let texts = [
        "left",
        "mid < left",
        "right",
        "a < mid: gpu=4",
        "b < mid: gpu=0",
        "c < left: gpu=4",
        "d < right",
        "e: gpu=9",
    ];
    let queues: Vec<_> = texts.into_iter().zip(weights.iter().copied()).collect();
    let mut tree = tree_without_memory(&queues);
    for ((text, weight), priority) in queues.into_iter().zip(priorities) {
        let (of, mut config) = queue(text);
        config.weight = Weight::from_thousandths(weight);
        config.priority = *priority;
        tree.apply(&of, config);
    }
    tree
}

/// Returns how far up a leaf must borrow for this amount: 0 not at all, 9 from its whole tree. No
/// queue of this forest keeps quota local.
fn borrowing_level(tree: &QuotaTree, leaf: QueueIdx, next: &str) -> usize {
    let (what, need) = (
        flavor_resource("gpu"),
        demand(next).amount(flavor_resource("gpu")),
    );
    if need == 0 {
        return 0;
    }
    let path: Vec<_> = tree.path(leaf).collect();
    let within = path.iter().position(|(at, _)| {
        let standing = tree
            .quota_usages(*at)
            .into_iter()
            .find(|s| s.flavor_resource == what);
        standing.is_some_and(|s| s.usage + need <= s.quota)
    });
    match within {
        Some(0) => 0,
        Some(at) if at + 1 < path.len() => tree.height(path[at].0),
        _ => 9,
    }
}

type LeafGang = Option<(String, i64)>;

/// Returns the first leaf from a search of all leaves: from the roots down, always the first of the
/// children.
fn first_by_full_scan(tree: &QuotaTree, next: &[LeafGang]) -> Option<QueueIdx> {
    let leaves = LEAVES.iter().zip(next).filter_map(|(leaf, next)| {
        let (next, submitted) = next.as_ref()?;
        let at = tree.queue_idx(leaf);
        Some((borrowing_level(tree, at, next), at, ms(*submitted)))
    });
    let leaves: Vec<_> = leaves.collect();
    let lowest = leaves.iter().map(|(level, ..)| *level).min()?;
    let leaves = leaves.into_iter().filter(|(level, ..)| *level == lowest);
    first_below(
        tree,
        None,
        &leaves.map(|(_, at, since)| (at, since)).collect::<Vec<_>>(),
        lowest,
    )
    .map(|(at, _)| at)
}

/// Returns the leaf that goes first below a queue, and the submission time of its gang.
fn first_below(
    tree: &QuotaTree,
    parent: Option<QueueIdx>,
    leaves: &[(QueueIdx, Time)],
    lowest: usize,
) -> Option<(QueueIdx, Time)> {
    let paths = leaves
        .iter()
        .map(|(leaf, _)| tree.path(*leaf).collect::<Vec<_>>());
    let children = paths.filter_map(|path| {
        let above = path.iter().position(|(at, _)| Some(*at) == parent);
        let at = above.unwrap_or(path.len()).checked_sub(1)?;
        (parent.is_none() || above.is_some()).then(|| path[at].0)
    });
    let ranks = children.map(|child| {
        // No queue below `lowest` stays within its quota; 9 is the level of the whole tree.
        let counts = match lowest {
            9 => !tree.is_limited(child),
            _ => tree.height(child) >= lowest,
        };
        let priority = tree.node(child)?.config.as_ref()?.priority;
        let own = leaves.iter().find(|(leaf, _)| *leaf == child);
        let (leaf, since) = own
            .copied()
            .or_else(|| first_below(tree, Some(child), leaves, lowest))?;
        let priority = Reverse(if counts { priority } else { 0 });
        Some((
            priority,
            tree.share(child),
            since,
            tree.name(child)?.clone(),
            leaf,
        ))
    });
    ranks
        .flatten()
        .min()
        .map(|(_, _, since, _, leaf)| (leaf, since))
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn turn_order_equals_a_full_scan(
        weights in prop::collection::vec(prop_oneof![Just(0), Just(1_000), 1..4_000_u32], 8),
        priorities in prop::collection::vec(prop_oneof![3 => Just(0), 1 => -2..3_i32], 8),
        events in prop::collection::vec((0..LEAVES.len(), 0..6_u8, 0..4_u8, 0..3_i64), 0..40),
    ) {
        let mut tree = forest(&weights, &priorities);
        let mut order = TurnOrder::default();
        let mut next: Vec<LeafGang> = vec![None; LEAVES.len()];
        for (leaf, amount, kind, submitted) in events {
            let at = tree.queue_idx(LEAVES[leaf]);
            let text = format!("gpu={amount}");
            match kind {
                0 => {
                    tree.charge(&name(LEAVES[leaf]), &demand(&text));
                    order.update_shares(&tree, at);
                    // The next gang of the queue may borrow now.
                    if let Some((text, submitted)) = &next[leaf] {
                        order.insert(&tree, at, next_gang(text, *submitted));
                    }
                }
                1 => {
                    order.remove(&tree, at);
                    next[leaf] = None;
                }
                _ => {
                    order.insert(&tree, at, next_gang(&text, submitted));
                    next[leaf] = Some((text, submitted));
                }
            }
            prop_assert_eq!(order.first(&tree), first_by_full_scan(&tree, &next));
        }
    }
}
