//! Tests of the claims on other queues, case by case: Kueue's reclaim within a cohort.

use super::common::{demand, resource, tree};
use crate::quota::claim::{ClaimKind, QuotaClaim};
use crate::quota::tree::QuotaTree;

/// Returns the claims of a queue whose demand does not fit, by name of the other queue, with
/// amounts. `?` marks claims that are not owed.
fn claims_of(tree: &QuotaTree, queue: &str, needs: &str) -> Vec<String> {
    let (at, demand) = (tree.queue_idx(queue), demand(needs));
    let lacks = tree.shortages(at, &demand);
    let lacks = |what| lacks.iter().any(|lack| lack.flavor_resource == what);
    let mut names = tree.names();
    names.sort();
    let others = names.into_iter().filter(|name| name.as_str() != queue);
    let each = others.filter_map(|name| {
        let holder = tree.find(name).filter(|at| tree.is_leaf(*at))?;
        let QuotaClaim {
            terms: claim,
            remaining: left,
            ..
        } = tree.claim(at, &demand, holder, lacks)?;
        let owed = if claim.kind == ClaimKind::Owed {
            ""
        } else {
            "?"
        };
        Some(format!("{name}: {left}{owed}"))
    });
    each.collect()
}

fn tree_with_capacity(queues: &[&str], gpus: i128, charged: &[&str]) -> QuotaTree {
    let mut tree = tree(queues);
    tree.set_capacity(resource("gpu"), gpus);
    for charge in charged {
        tree.charge_queue(charge);
    }
    tree
}

#[test]
fn nominal_quota_is_reclaimed_from_its_borrowers() {
    let tree = tree_with_capacity(
        &["c:", "a < c: gpu=4", "b < c: gpu=4", "d < c: gpu=4"],
        12,
        &["a: gpu=7", "d: gpu=4"],
    );
    assert_eq!(claims_of(&tree, "b", "gpu=4"), ["a: 3"]);
    assert!(claims_of(&tree, "b", "gpu=1").is_empty(), "1 is idle");
    // Beyond nominal quota there is no owed claim. The policies decide if the queue may borrow.
    assert_eq!(claims_of(&tree, "b", "gpu=5"), ["a: 3?"]);
}

#[test]
fn queue_within_nominal_or_outside_the_cohort_is_not_claimed() {
    let within = tree_with_capacity(
        &["c:", "a < c: gpu=4", "b < c: gpu=2"],
        6,
        &["a: gpu=4", "b: gpu=2"],
    );
    assert!(
        claims_of(&within, "b", "gpu=1").is_empty(),
        "all are within nominal"
    );
    let apart = tree_with_capacity(&["a: gpu=4", "b: gpu=2"], 6, &["a: gpu=6"]);
    assert!(
        claims_of(&apart, "b", "gpu=2").is_empty(),
        "they share nothing"
    );
    let kept = tree_with_capacity(&["c:", "a < c: gpu=4-0", "b < c: gpu=2"], 6, &["b: gpu=2"]);
    assert!(
        claims_of(&kept, "a", "gpu=4").is_empty(),
        "all of it was kept"
    );
}

#[test]
fn cohort_within_its_quota_is_not_claimed() {
    let queues = [
        "root:",
        "left < root:",
        "right < root:",
        "a < left: gpu=4",
        "x < right: gpu=2",
        "y < right: gpu=4",
    ];
    // `x` borrows from `y`, which does not affect `a`.
    let tree = tree_with_capacity(&queues, 10, &["x: gpu=6", "a: gpu=1"]);
    assert!(claims_of(&tree, "a", "gpu=3").is_empty());
    // `x` borrows 2 from `a` and 4 from `y`.
    let tree = tree_with_capacity(&queues, 10, &["x: gpu=8", "a: gpu=2"]);
    assert_eq!(claims_of(&tree, "a", "gpu=2"), ["x: 2"]);
    assert_eq!(claims_of(&tree, "y", "gpu=4"), ["x: 6"]);
}

#[test]
fn guarantees_of_a_cohort_are_owed_by_other_cohorts() {
    let tree = tree_with_capacity(
        &[
            "root:",
            "left < root: gpu=4",
            "a < left: gpu=1",
            "b < left: gpu=0",
            "x < root: gpu=1",
        ],
        6,
        &["b: gpu=3", "x: gpu=3"],
    );
    // `a` would borrow from `left`: `x` owes it quota, and `b` does not.
    assert_eq!(claims_of(&tree, "a", "gpu=2"), ["b: 3?", "x: 2"]);
    // Within the nominal quota of `a`, both owe it quota. `b`'s side of the tree holds more.
    assert!(claims_of(&tree, "a", "gpu=1").is_empty() || tree.available_to("a", "gpu") == Some(0));
    assert_eq!(claims_of(&tree, "a", "gpu=1"), ["b: 3", "x: 2"]);
}

#[test]
fn quota_owed_below_a_cohort_is_owed_above_it() {
    // `left` itself is over its quota, but the demand of `a` is within its own quota.
    let tree = tree_with_capacity(
        &[
            "root:",
            "left < root:",
            "a < left: gpu=2",
            "b < left: gpu=0",
            "x < root: gpu=1",
            "y < root: gpu=3",
        ],
        6,
        &["b: gpu=3", "x: gpu=3"],
    );
    assert_eq!(claims_of(&tree, "a", "gpu=2"), ["b: 3", "x: 2"]);
}

#[test]
fn local_quota_is_not_claimed_from_other_queues() {
    // `a` keeps 2 of 5 local. The other 3 are the quota of its parent.
    let tree = tree_with_capacity(
        &[
            "root:",
            "p < root: gpu=1",
            "a < p: gpu=4-2",
            "x < root: gpu=2",
        ],
        7,
        &["x: gpu=4"],
    );
    assert_eq!(claims_of(&tree, "a", "gpu=5"), ["x: 2"]);
    assert_eq!(claims_of(&tree, "a", "gpu=6"), ["x: 2?"]);
}

#[test]
fn queue_outside_a_borrowing_limit_owes_only_the_amount_in_need() {
    let tree = tree_with_capacity(
        &[
            "root:",
            "left < root: gpu=0+0",
            "a < left: gpu=2",
            "b < left: gpu=2",
            "x < root: gpu=2",
            "y < root: gpu=2",
        ],
        8,
        &["b: gpu=4", "x: gpu=3"],
    );
    // A release by `x` does not help. There is a claim on `x`, but no need for it.
    assert_eq!(claims_of(&tree, "a", "gpu=1"), ["b: 2", "x: 1"]);
}

#[test]
fn claims_cover_only_missing_resources() {
    let tree = tree_with_capacity(
        &[
            "c:",
            "a < c: gpu=4 cpu=8",
            "b < c: gpu=4 cpu=8",
            "d < c: gpu=4 cpu=8",
        ],
        12,
        &["a: gpu=6 cpu=10", "d: cpu=12 gpu=5"],
    );
    // 1 gpu and 2 cpu are left.
    assert_eq!(claims_of(&tree, "b", "gpu=3 cpu=2"), ["a: 2", "d: 1"]);
    assert_eq!(claims_of(&tree, "b", "gpu=1 cpu=3"), ["a: 2", "d: 4"]);
    assert_eq!(claims_of(&tree, "b", "gpu=3 cpu=3"), ["a: 2", "d: 4"]);
}
