//! Tests that a misconfigured queue stops only itself.

use super::common::{name, queue, tree, what};
use crate::quota::tree::Tree;

/// Which queues are stopped, and why.
fn faults(tree: &Tree, names: &[&str]) -> Vec<String> {
    let fault = |of: &&str| {
        let fault = tree.misconfigured(tree.find(&name(of))?)?;
        Some(format!("{of} {fault}"))
    };
    names.iter().filter_map(fault).collect()
}

#[test]
fn a_queue_waits_for_its_parent() {
    let mut tree = tree(&["b < a: gpu=1", "c < b: gpu=2"]);
    assert_eq!(
        faults(&tree, &["b", "c"]),
        [
            "b is below \"a\", which does not exist: create that queue, or correct spec.parentName",
            "c is below \"b\", which is misconfigured"
        ]
    );
    assert_eq!(tree.room_of("c", "gpu"), Some(0));
    assert!(!tree.offers(tree.at("c"), what("gpu")));
    assert!(tree.find(&name("a")).is_none());
    tree.put("a: gpu=4");
    assert!(faults(&tree, &["a", "b", "c"]).is_empty());
    assert_eq!(tree.room_of("c", "gpu"), Some(7));
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
    assert_eq!(tree.room_of("beside", "gpu"), Some(63));
    tree.put("a < c: gpu=2");
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
    assert_eq!(tree.room_of("beside", "gpu"), Some(33));
    // The cycle is broken at another queue than the one that closed it.
    tree.put("b: gpu=4");
    assert!(faults(&tree, &names).is_empty());
    assert_eq!(tree.room_of("below", "gpu"), Some(30));
    assert_eq!(tree.room_of("beside", "gpu"), Some(33));
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
    tree.put("a: gpu=2");
    assert_eq!(tree.room_of("b", "gpu"), Some(3));
    tree.put("a < a: gpu=2");
    assert!(tree.delete(&name("a")));
    assert_eq!(
        faults(&tree, &["b"]),
        ["b is below \"a\", which does not exist: create that queue, or correct spec.parentName"]
    );
}

#[test]
fn negative_amounts_stop_the_queue_that_has_them() {
    let mut tree = tree(&["c:", "a < c: gpu=5", "b < c: gpu=7 cpu=3"]);
    tree.take("a: gpu=6");
    assert_eq!(tree.room_of("b", "gpu"), Some(6));
    for (wrong, message) in [
        ("gpu=~1", "a nominal quota of -1"),
        ("gpu=1+~2", "a borrowing limit of -2"),
        ("gpu=1-~3", "a lending limit of -3"),
    ] {
        tree.put(&format!("a < c: {wrong}"));
        let expected = format!("a has {message}: an amount cannot be negative");
        assert_eq!(faults(&tree, &["a", "b", "c"]), [expected]);
        // a neither lends nor owes anything: b keeps what it owns.
        assert_eq!(tree.room_of("b", "gpu"), Some(7));
        assert_eq!(tree.room_of("a", "gpu"), Some(0));
        assert_eq!(tree.borrowed_by("a", "gpu"), 0);
    }
    tree.put("a < c: gpu=5");
    assert_eq!(tree.room_of("b", "gpu"), Some(6));
}

#[test]
fn sixteen_levels_are_deep_enough() {
    let mut tree = tree(&["q01: gpu=1"]);
    // Each queue is added before its parent.
    for level in (2..=18).rev() {
        tree.put(&format!("q{level:02} < q{:02}: gpu=1", level - 1));
    }
    let names: Vec<String> = (1..=18).map(|level| format!("q{level:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let expected = [
        "q17 is more than 16 levels deep: put it below a queue nearer to the root",
        "q18 is below \"q17\", which is misconfigured",
    ];
    assert_eq!(faults(&tree, &names), expected);
    assert_eq!(tree.room_of("q16", "gpu"), Some(16));
    tree.put("q03: gpu=1");
    assert!(faults(&tree, &names).is_empty() && names.len() == 18);
    assert_eq!(tree.room_of("q18", "gpu"), Some(16));
    tree.put("q03 < q02: gpu=1");
    assert_eq!(faults(&tree, &names), expected);
}

#[test]
fn a_queue_moves_with_all_that_is_below_it() {
    let mut tree = tree(&["x: gpu=10", "y: gpu=20", "p < x: gpu=1", "a < p: gpu=2-1"]);
    tree.take("a: gpu=5");
    assert_eq!(tree.room_of("x", "gpu"), Some(8));
    assert_eq!(tree.root(tree.at("a")), Some(&name("x")));
    tree.put("p < y: gpu=1");
    assert_eq!(tree.root(tree.at("a")), Some(&name("y")));
    assert_eq!(tree.room_of("x", "gpu"), Some(10));
    assert_eq!(tree.room_of("y", "gpu"), Some(18));
    assert_eq!(tree.held(tree.at("x"), what("gpu").resource), 0);
    assert_eq!(tree.held(tree.at("y"), what("gpu").resource), 5);
}

#[test]
fn what_a_deleted_queue_holds_is_remembered() {
    let mut tree = tree(&["c:", "a < c: gpu=4", "b < c: gpu=4"]);
    tree.take("a: gpu=3");
    tree.delete(&name("a"));
    assert!(tree.find(&name("a")).is_none());
    assert_eq!(
        tree.room_of("b", "gpu"),
        Some(4),
        "a neither lends nor owes"
    );
    tree.put("a < c: gpu=4");
    assert_eq!(tree.room_of("b", "gpu"), Some(5));
    tree.delete(&name("a"));
    tree.give("a: gpu=3");
    assert!(tree.number(&name("a")).is_none(), "nothing of it is left");
    // The charge comes before the queue is known.
    tree.take("late: gpu=2");
    tree.put("late < c: gpu=1");
    assert_eq!(tree.room_of("b", "gpu"), Some(3));
}

#[test]
fn what_is_applied_twice_changes_nothing() {
    let mut tree = tree(&[]);
    let (of, member) = queue("a < c: gpu=4");
    assert!(tree.apply(&of, member.clone()));
    assert!(!tree.apply(&of, member));
    let (_, other) = queue("a < c: gpu=5");
    assert!(tree.apply(&of, other));
}
