//! Tests of what queues offer, what they lack, and what has no limit.

use super::common::{demand, name, tree, what};
use crate::quota::tree::Tree;

/// The exceeded limits, in a few words.
fn lacks(tree: &Tree, queue: &str, needs: &str) -> Vec<String> {
    let lacks = tree.lacks(tree.at(queue), &demand(needs));
    let shortages = lacks.iter().flat_map(|lack| {
        lack.shortages.iter().map(|s| {
            let limit = if s.borrowing_limit { "borrows" } else { "has" };
            format!(
                "{} {limit} {}/{}, {} missing",
                s.queue, s.used, s.most, s.missing
            )
        })
    });
    shortages.collect()
}

fn borrowers(tree: &Tree, queue: &str, needs: i128) -> Vec<(String, i128)> {
    let all = tree.borrowers(tree.at(queue), what("gpu"), needs, 9);
    let short = all.into_iter().map(|b| (b.queue.to_string(), b.borrowed));
    short.collect()
}

#[test]
fn a_queue_without_quotas_has_no_limit() {
    let mut tree = tree(&["default"]);
    tree.take("default: gpu=1000000");
    let at = tree.at("default");
    assert_eq!(tree.available(at, what("gpu")), None);
    assert_eq!(tree.could_ever(at, what("h100/gpu")), None);
    assert!(tree.offers(at, what("gpu")) && tree.fits(at, &demand("gpu=9")));
    assert!(!tree.borrows(at, &demand("gpu=9")));
    assert_eq!(tree.borrowed_by("default", "gpu"), 0);
    assert!(lacks(&tree, "default", "gpu=9").is_empty());
    // A tree of queues without quotas has no limit either.
    tree.put("team < default");
    assert_eq!(tree.room_of("team", "gpu"), None);
}

#[test]
fn in_a_tree_with_quotas_who_names_none_has_what_is_idle() {
    let mut tree = tree(&["root", "a < root: gpu=4", "b < root"]);
    assert_eq!(tree.room_of("b", "gpu"), Some(4));
    assert!(tree.borrows(tree.at("b"), &demand("gpu=1")));
    assert!(!tree.offers(tree.at("b"), what("cpu")), "nobody names it");
    assert_eq!(tree.room_of("b", "cpu"), Some(0));
    assert_eq!(tree.room_of("b", "pods"), None);
    tree.put("c < root: cpu=8 pods=5");
    assert_eq!(tree.room_of("b", "cpu"), Some(8));
    tree.take("b: pods=2");
    assert_eq!(tree.room_of("b", "pods"), Some(3));
    tree.delete(&name("a"));
    tree.delete(&name("c"));
    assert_eq!(tree.room_of("b", "cpu"), None, "nobody names any more");
}

#[test]
fn what_is_not_named_is_not_offered_save_pods() {
    let mut tree = tree(&["root: cpu=9 pods=9", "a < root: gpu=4", "none < root:"]);
    let at = tree.at("a");
    assert!(tree.offers(at, what("gpu")) && !tree.offers(at, what("cpu")));
    assert!(!tree.offers(at, what("h100/gpu")), "another flavor");
    assert!(tree.fits(at, &demand("gpu=4 pods=100")));
    assert!(!tree.fits(at, &demand("gpu=1 cpu=1")));
    assert_eq!(tree.room_of("a", "cpu"), Some(0));
    assert!(!tree.fits(tree.at("none"), &demand("gpu=1")));
    // Pods are not counted either until a queue names them.
    tree.take("a: gpu=1 pods=4");
    assert_eq!(tree.room_of("root", "pods"), Some(9));
    tree.put("a < root: gpu=4 pods=1");
    assert_eq!(tree.room_of("root", "pods"), Some(6));
    tree.put("a < root: gpu=4");
    assert_eq!(tree.room_of("root", "pods"), Some(9));
    assert_eq!(tree.charged(at, what("pods")), 4);
}

#[test]
fn a_resource_that_is_named_no_more_is_still_owed() {
    let mut tree = tree(&["c:", "a < c: gpu=4", "b < c: gpu=4"]);
    tree.take("a: gpu=3");
    tree.put("a < c: cpu=4");
    assert_eq!(tree.room_of("b", "gpu"), Some(1));
    assert_eq!(tree.borrowed_by("a", "gpu"), 3);
    assert_eq!(borrowers(&tree, "b", 2), [("a".to_owned(), 3)]);
}

#[test]
fn each_limit_in_the_way_is_named() {
    let mut tree = tree(&[
        "root:",
        "left < root: gpu=0+1",
        "a < left: gpu=2+9",
        "b < left: gpu=2",
        "c < root: gpu=4",
    ]);
    tree.take("a: gpu=3");
    tree.take("b: gpu=1");
    tree.take("c: gpu=2");
    assert!(lacks(&tree, "a", "gpu=1").is_empty());
    assert_eq!(
        lacks(&tree, "a", "gpu=4"),
        ["left borrows 4/5, 3 missing", "root has 6/8, 2 missing"]
    );
    assert_eq!(
        lacks(&tree, "a", "gpu=9"),
        [
            "a borrows 3/11, 1 missing",
            "left borrows 4/5, 8 missing",
            "root has 6/8, 7 missing"
        ]
    );
    let lack = &tree.lacks(tree.at("a"), &demand("gpu=9"))[0];
    assert_eq!((lack.needs, lack.available), (9, 1));
    assert_eq!(lack.least_release(), 8);
    // The same without any usage.
    let never = tree.lacks_ever(tree.at("a"), &demand("gpu=6"));
    let shortage = &never[0].shortages[0];
    assert_eq!((shortage.queue.as_str(), shortage.missing), ("left", 1));
    assert_eq!((shortage.used, shortage.most), (0, 5));
    assert_eq!((never[0].available, never[0].shortages.len()), (5, 1));
    assert!(tree.lacks_ever(tree.at("a"), &demand("gpu=5")).is_empty());
}

#[test]
fn who_borrows_is_named_largest_first() {
    let mut tree = tree(&[
        "root:",
        "left < root: gpu=3",
        "right < root: gpu=0",
        "a < left: gpu=4",
        "inside < left: gpu=0",
        "x < right: gpu=1",
        "y < right: gpu=1",
        "b < root: gpu=1",
        "d < root: gpu=1",
    ]);
    for charge in ["inside: gpu=3", "x: gpu=3", "y: gpu=2", "b: gpu=3"] {
        tree.take(charge);
    }
    assert_eq!(tree.room_of("a", "gpu"), Some(0));
    let expected = [("inside", 3), ("b", 2), ("x", 2), ("y", 1)];
    let expected = expected.map(|(of, amount)| (of.to_owned(), amount));
    assert_eq!(borrowers(&tree, "a", 1), expected);
    let two = tree.borrowers(tree.at("a"), what("gpu"), 1, 2);
    assert_eq!(two.len(), 2);
    // Quota that the queues below left borrow from left does not concern d.
    assert_eq!(borrowers(&tree, "d", 1), expected[1..]);
    // A queue that borrows itself is named too.
    assert_eq!(borrowers(&tree, "y", 1), expected[1..]);
    tree.put("b < root: gpu=1+2");
    assert_eq!(borrowers(&tree, "b", 1), expected[1..]);
    // Now its own limit alone is in the way: no other queue could help by giving back.
    tree.give("inside: gpu=3");
    assert_eq!(borrowers(&tree, "b", 1), expected[1..=1]);
    assert!(borrowers(&tree, "a", 1).is_empty(), "nothing is lacking");
    assert!(
        borrowers(&tree, "x", 1).is_empty(),
        "though it borrows itself"
    );
}

#[test]
fn borrowing_is_going_beyond_nominal() {
    let mut tree = tree(&["c:", "a < c: gpu=4 cpu=9", "b < c: gpu=4"]);
    tree.take("a: gpu=3");
    let at = tree.at("a");
    assert!(!tree.borrows(at, &demand("gpu=1 cpu=9")));
    assert!(tree.borrows(at, &demand("gpu=2")));
    assert!(tree.borrows(at, &demand("gpu=1 cpu=10")));
    assert!(!tree.borrows(at, &demand("pods=99")));
}

#[test]
fn amounts_beyond_all_counting_are_taken_back_exactly() {
    let mut tree = tree(&["c: gpu=5", "a < c: gpu=1", "b < c: gpu=4-1"]);
    let all = crate::quota::amounts::Demand::from_iter([(what("gpu"), i128::MAX)]);
    tree.take("a: gpu=2");
    for _ in 0..100 {
        tree.charge(&name("a"), &all);
    }
    assert!(tree.room_of("a", "gpu") < Some(-1_000_000));
    assert_eq!(tree.room_of("b", "gpu"), Some(3));
    for _ in 0..100 {
        tree.release(&name("a"), &all);
    }
    assert_eq!(tree.room_of("a", "gpu"), Some(5));
    let remembered = tree.remembered(tree.at("a"));
    assert!(remembered.usage.is_empty(), "at the same instant: no trace");
    // More than what was charged cannot be given back.
    tree.give("a: gpu=9");
    assert_eq!(tree.room_of("a", "gpu"), Some(7));
    tree.give("nobody: gpu=9");
    assert!(tree.number(&name("nobody")).is_none());
}
