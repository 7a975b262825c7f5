//! Tests that a misconfigured queue stops only itself.

use super::common::{flavor_resource, name, queue, tree};
use crate::quota::tree::QuotaTree;

/// Returns the misconfigured queues with their faults.
fn faults(tree: &QuotaTree, names: &[&str]) -> Vec<String> {
    let fault = |of: &&str| {
        let fault = tree.fault(tree.find(&name(of))?)?;
        Some(format!("{of} {fault}"))
    };
    names.iter().filter_map(fault).collect()
}

#[test]
fn queue_counts_only_once_its_parent_exists() {
    let mut tree = tree(&["b < a: gpu=1", "c < b: gpu=2"]);
    assert_eq!(
        faults(&tree, &["b", "c"]),
        [
            "b is below \"a\", which does not exist: create that queue, or correct spec.parentName",
            "c is below \"b\", which is misconfigured"
        ]
    );
    assert_eq!(tree.available_to("c", "gpu"), Some(0));
    assert!(!tree.offers(tree.queue_idx("c"), flavor_resource("gpu")));
    assert!(tree.find(&name("a")).is_none());
    tree.apply_queue("a: gpu=4");
    assert!(faults(&tree, &["a", "b", "c"]).is_empty());
    assert_eq!(tree.available_to("c", "gpu"), Some(7));
    assert!(tree.delete(&name("a")));
    assert_eq!(faults(&tree, &["b", "c"]).len(), 2);
    assert!(!tree.delete(&name("a")), "it is gone");
}

#[test]
fn all_members_of_a_cycle_are_stopped() {
    let mut tree = tree(&[
        "root: gpu=1",
        "a < root: gpu=2",
        "b < a: gpu=4",
        "c < b: gpu=8",
        "below < b: gpu=16",
        "beside < root: gpu=32",
    ]);
    assert_eq!(tree.available_to("beside", "gpu"), Some(63));
    tree.apply_queue("a < c: gpu=2");
    let cycle = "is part of a cycle of parents: \"a\" below \"c\" below \"b\" below \"a\"; change spec.parentName of one of them";
    let names = ["root", "a", "b", "c", "below", "beside"];
    assert_eq!(
        faults(&tree, &names),
        [
            format!("a {cycle}"),
            format!("b {cycle}"),
            format!("c {cycle}"),
            "below is below \"b\", which is misconfigured".to_owned(),
        ]
    );
    assert_eq!(tree.available_to("beside", "gpu"), Some(33));
    // A change of a different queue than the one that closed the cycle breaks it.
    tree.apply_queue("b: gpu=4");
    assert!(faults(&tree, &names).is_empty());
    assert_eq!(tree.available_to("below", "gpu"), Some(30));
    assert_eq!(tree.available_to("beside", "gpu"), Some(33));
}

#[test]
fn no_queue_is_its_own_parent() {
    let mut tree = tree(&["a < a: gpu=2", "b < a: gpu=1"]);
    assert_eq!(
        faults(&tree, &["a", "b"]),
        [
            "a names itself as its parent: correct or remove spec.parentName",
            "b is below \"a\", which is misconfigured"
        ]
    );
    tree.apply_queue("a: gpu=2");
    assert_eq!(tree.available_to("b", "gpu"), Some(3));
    tree.apply_queue("a < a: gpu=2");
    assert!(tree.delete(&name("a")));
    assert_eq!(
        faults(&tree, &["b"]),
        ["b is below \"a\", which does not exist: create that queue, or correct spec.parentName"]
    );
}

#[test]
fn negative_amounts_stop_the_queue_that_has_them() {
    let mut tree = tree(&["c:", "a < c: gpu=5", "b < c: gpu=7 cpu=3"]);
    tree.charge_queue("a: gpu=6");
    assert_eq!(tree.available_to("b", "gpu"), Some(6));
    for (wrong, message) in [
        ("gpu=~1", "a nominal quota of -1"),
        ("gpu=1+~2", "a borrowing limit of -2"),
        ("gpu=1-~3", "a lending limit of -3"),
    ] {
        tree.apply_queue(&format!("a < c: {wrong}"));
        let expected = format!("a has {message}: an amount cannot be negative");
        assert_eq!(faults(&tree, &["a", "b", "c"]), [expected]);
        // `a` neither lends nor owes quota, so `b` keeps its own quota.
        assert_eq!(tree.available_to("b", "gpu"), Some(7));
        assert_eq!(tree.available_to("a", "gpu"), Some(0));
        assert_eq!(tree.borrowed_amount("a", "gpu"), 0);
    }
    tree.apply_queue("a < c: gpu=5");
    assert_eq!(tree.available_to("b", "gpu"), Some(6));
}

#[test]
fn sixteen_levels_are_deep_enough() {
    let mut tree = tree(&["q01: gpu=1"]);
    // Each queue is added before its parent.
    for level in (2..=18).rev() {
        tree.apply_queue(&format!("q{level:02} < q{:02}: gpu=1", level - 1));
    }
    let names: Vec<String> = (1..=18).map(|level| format!("q{level:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let expected = [
        "q17 is more than 16 levels deep: put it below a queue nearer to the root",
        "q18 is below \"q17\", which is misconfigured",
    ];
    assert_eq!(faults(&tree, &names), expected);
    assert_eq!(tree.available_to("q16", "gpu"), Some(16));
    tree.apply_queue("q03: gpu=1");
    assert!(faults(&tree, &names).is_empty() && names.len() == 18);
    assert_eq!(tree.available_to("q18", "gpu"), Some(16));
    tree.apply_queue("q03 < q02: gpu=1");
    assert_eq!(faults(&tree, &names), expected);
}

#[test]
fn queue_moves_with_its_subtree() {
    let mut tree = tree(&["x: gpu=10", "y: gpu=20", "p < x: gpu=1", "a < p: gpu=2-1"]);
    tree.charge_queue("a: gpu=5");
    assert_eq!(tree.available_to("x", "gpu"), Some(8));
    assert_eq!(tree.root(tree.queue_idx("a")), Some(&name("x")));
    tree.apply_queue("p < y: gpu=1");
    assert_eq!(tree.root(tree.queue_idx("a")), Some(&name("y")));
    assert_eq!(tree.available_to("x", "gpu"), Some(10));
    assert_eq!(tree.available_to("y", "gpu"), Some(18));
    assert_eq!(
        tree.subtree_usage(tree.queue_idx("x"), flavor_resource("gpu").resource),
        0
    );
    assert_eq!(
        tree.subtree_usage(tree.queue_idx("y"), flavor_resource("gpu").resource),
        5
    );
}

#[test]
fn deleted_queue_keeps_its_charges() {
    let mut tree = tree(&["c:", "a < c: gpu=4", "b < c: gpu=4"]);
    tree.charge_queue("a: gpu=3");
    tree.delete(&name("a"));
    assert!(tree.find(&name("a")).is_none());
    assert_eq!(
        tree.available_to("b", "gpu"),
        Some(4),
        "a neither lends nor owes"
    );
    tree.apply_queue("a < c: gpu=4");
    assert_eq!(tree.available_to("b", "gpu"), Some(5));
    tree.delete(&name("a"));
    tree.release_queue("a: gpu=3");
    assert!(tree.number(&name("a")).is_none(), "nothing of it is left");
    // The charge comes before the queue exists.
    tree.charge_queue("late: gpu=2");
    tree.apply_queue("late < c: gpu=1");
    assert_eq!(tree.available_to("b", "gpu"), Some(3));
}

#[test]
fn queue_applied_twice_is_unchanged() {
    let mut tree = tree(&[]);
    let (of, member) = queue("a < c: gpu=4");
    assert!(tree.apply(&of, member.clone()));
    assert!(!tree.apply(&of, member));
    let (_, other) = queue("a < c: gpu=5");
    assert!(tree.apply(&of, other));
}
