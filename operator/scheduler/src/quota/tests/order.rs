//! Whose turn it is.

use proptest::prelude::*;

use super::common::{cases, demand, empty, ms, name, queue, resource, tree};
use crate::quota::decay::Decay;
use crate::quota::member::Weight;
use crate::quota::order::Order;
use crate::quota::tree::{QueueIdx, Tree};

/// All leaves in the order of their turns, each of which would start `next`.
fn turns(tree: &Tree, leaves: &[&str], next: &str) -> Vec<String> {
    let mut order = Order::default();
    for leaf in leaves {
        order.insert(tree, tree.at(leaf), &demand(next));
    }
    let turn = || {
        let first = order.first()?;
        order.remove(tree, first);
        Some(tree.name(first)?.to_string())
    };
    std::iter::from_fn(turn).collect()
}

fn instant(queues: &[(&str, u32)]) -> Tree {
    let mut tree = empty(Decay::half_life(0));
    for (text, weight) in queues {
        let (of, mut member) = queue(text);
        member.weight = Weight::from_thousandths(*weight);
        tree.apply(&of, member);
    }
    tree.set_capacity(resource("gpu"), 100);
    tree
}

#[test]
fn who_is_within_nominal_goes_before_who_borrows() {
    let mut tree = tree(&["c:", "a < c: gpu=4", "b < c: gpu=4", "other: gpu=2"]);
    tree.set_capacity(resource("gpu"), 10);
    tree.take("b: gpu=3");
    tree.take("other: gpu=1");
    tree.advance(ms(1_000_000_000));
    let turns = |tree: &Tree, next| turns(tree, &["a", "b", "other"], next);
    // All are within nominal: the smaller share decides, at the roots first.
    assert_eq!(turns(&tree, "gpu=1"), ["other", "a", "b"]);
    // Now a alone is.
    assert_eq!(turns(&tree, "gpu=2"), ["a", "other", "b"]);
    tree.take("a: gpu=4");
    // Now all but a, though a has had less than b so far.
    assert_eq!(turns(&tree, "gpu=1"), ["other", "b", "a"]);
}

#[test]
fn shares_are_compared_level_by_level() {
    let mut tree = instant(&[
        ("left", 1_000),
        ("right", 1_000),
        ("a < left", 1_000),
        ("b < left", 1_000),
        ("x < right", 1_000),
        ("y < right", 1_000),
    ]);
    for charge in ["a: gpu=1", "b: gpu=9", "x: gpu=5", "y: gpu=6"] {
        tree.take(charge);
    }
    // left holds 10, right 11: even b goes before x.
    let leaves = ["a", "b", "x", "y"];
    assert_eq!(turns(&tree, &leaves, "gpu=1"), ["a", "b", "x", "y"]);
    tree.take("a: gpu=2");
    assert_eq!(turns(&tree, &leaves, "gpu=1"), ["x", "y", "a", "b"]);
}

#[test]
fn weights_divide_and_names_break_ties() {
    let mut tree = instant(&[("a", 1_000), ("b", 2_000), ("c", 500), ("d", 0), ("e", 0)]);
    let leaves = ["e", "d", "c", "b", "a"];
    assert_eq!(turns(&tree, &leaves, "gpu=1"), ["a", "b", "c", "d", "e"]);
    for charge in ["a: gpu=4", "b: gpu=6", "c: gpu=1", "d: gpu=1"] {
        tree.take(charge);
    }
    assert_eq!(turns(&tree, &leaves, "gpu=1"), ["c", "b", "a", "e", "d"]);
}

#[test]
fn only_leaves_that_are_sound_have_turns() {
    let tree = tree(&["p", "a < p", "lost < nowhere", "own < own"]);
    let mut order = Order::default();
    for of in ["p", "lost", "own"] {
        order.insert(&tree, tree.at(of), &demand("gpu=1"));
    }
    assert_eq!(order.first(), None);
    order.remove(&tree, tree.at("p"));
    order.moved(&tree, tree.at("p"));
    order.insert(&tree, tree.at("a"), &demand("gpu=1"));
    assert_eq!(order.first(), Some(tree.at("a")));
}

const LEAVES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn forest(weights: &[u32]) -> Tree {
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
    instant(&queues)
}

/// The same, by looking at all of them.
fn smallest(tree: &Tree, next: &[Option<String>]) -> Option<QueueIdx> {
    let rank = |(leaf, next): (&str, &Option<String>)| {
        let at = tree.at(leaf);
        let mut path: Vec<_> = tree
            .path(at)
            .map(|(at, node)| (tree.share(at), node.name.clone()))
            .collect();
        path.reverse();
        Some((tree.borrows(at, &demand(next.as_ref()?)), path, at))
    };
    let ranks = LEAVES.into_iter().zip(next).filter_map(rank);
    ranks.min().map(|(.., at)| at)
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn the_order_is_that_of_looking_at_all(
        weights in prop::collection::vec(prop_oneof![Just(0), Just(1_000), 1..4_000_u32], 8),
        events in prop::collection::vec((0..LEAVES.len(), 0..6_u8, 0..4_u8), 0..40),
    ) {
        let mut tree = forest(&weights);
        let mut order = Order::default();
        let mut next: Vec<Option<String>> = vec![None; LEAVES.len()];
        for (leaf, amount, kind) in events {
            let at = tree.at(LEAVES[leaf]);
            let text = format!("gpu={amount}");
            match kind {
                0 => {
                    tree.charge(&name(LEAVES[leaf]), &demand(&text));
                    order.moved(&tree, at);
                    // What it would start next may borrow now.
                    if let Some(text) = &next[leaf] {
                        order.insert(&tree, at, &demand(text));
                    }
                }
                1 => {
                    order.remove(&tree, at);
                    next[leaf] = None;
                }
                _ => {
                    order.insert(&tree, at, &demand(&text));
                    next[leaf] = Some(text);
                }
            }
            prop_assert_eq!(order.first(), smallest(&tree, &next));
        }
    }
}
