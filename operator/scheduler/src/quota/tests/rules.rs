//! Tests of offered resources, missing quota, and resources without a limit.

use super::common::{demand, flavor_resource, name, tree};
use crate::quota::tree::QuotaTree;

/// Returns the exceeded limits as short text.
fn exceeded_limits(tree: &QuotaTree, queue: &str, needs: &str) -> Vec<String> {
    let lacks = tree.shortages(tree.queue_idx(queue), &demand(needs));
    let shortages = lacks.iter().flat_map(|lack| {
        lack.exceeded_limits.iter().map(|s| {
            let limit = if s.borrowing_limit { "borrows" } else { "has" };
            format!(
                "{} {limit} {}/{}, {} missing",
                s.queue, s.used, s.max, s.missing
            )
        })
    });
    shortages.collect()
}

fn borrowers(tree: &QuotaTree, queue: &str, needs: i128) -> Vec<(String, i128)> {
    let all = tree.borrowers(tree.queue_idx(queue), flavor_resource("gpu"), needs, 9);
    let short = all.into_iter().map(|b| (b.queue.to_string(), b.borrowed));
    short.collect()
}

#[test]
fn a_queue_without_quotas_has_no_limit() {
    let mut tree = tree(&["default"]);
    tree.charge_queue("default: gpu=1000000");
    let at = tree.queue_idx("default");
    assert_eq!(tree.available(at, flavor_resource("gpu")), None);
    assert_eq!(
        tree.available_when_empty(at, flavor_resource("h100/gpu")),
        None
    );
    assert!(tree.offers(at, flavor_resource("gpu")) && tree.fits(at, &demand("gpu=9")));
    assert!(!tree.borrows(at, &demand("gpu=9")));
    assert_eq!(tree.borrowed_amount("default", "gpu"), 0);
    assert!(exceeded_limits(&tree, "default", "gpu=9").is_empty());
    // A tree of queues without quotas has no limit either.
    tree.apply_queue("team < default");
    assert_eq!(tree.available_to("team", "gpu"), None);
}

#[test]
fn queue_without_quotas_gets_idle_quota_of_its_tree() {
    let mut tree = tree(&["root", "a < root: gpu=4", "b < root"]);
    assert_eq!(tree.available_to("b", "gpu"), Some(4));
    assert!(tree.borrows(tree.queue_idx("b"), &demand("gpu=1")));
    assert!(
        !tree.offers(tree.queue_idx("b"), flavor_resource("cpu")),
        "nobody names it"
    );
    assert_eq!(tree.available_to("b", "cpu"), Some(0));
    assert_eq!(tree.available_to("b", "pods"), None);
    tree.apply_queue("c < root: cpu=8 pods=5");
    assert_eq!(tree.available_to("b", "cpu"), Some(8));
    tree.charge_queue("b: pods=2");
    assert_eq!(tree.available_to("b", "pods"), Some(3));
    tree.delete(&name("a"));
    tree.delete(&name("c"));
    assert_eq!(tree.available_to("b", "cpu"), None, "nobody names any more");
}

#[test]
fn unnamed_resource_is_not_offered_except_pods() {
    let mut tree = tree(&["root: cpu=9 pods=9", "a < root: gpu=4", "none < root:"]);
    let at = tree.queue_idx("a");
    assert!(tree.offers(at, flavor_resource("gpu")) && !tree.offers(at, flavor_resource("cpu")));
    assert!(
        !tree.offers(at, flavor_resource("h100/gpu")),
        "another flavor"
    );
    assert!(tree.fits(at, &demand("gpu=4 pods=100")));
    assert!(!tree.fits(at, &demand("gpu=1 cpu=1")));
    assert_eq!(tree.available_to("a", "cpu"), Some(0));
    assert!(!tree.fits(tree.queue_idx("none"), &demand("gpu=1")));
    // Pods do not count either until a queue names them.
    tree.charge_queue("a: gpu=1 pods=4");
    assert_eq!(tree.available_to("root", "pods"), Some(9));
    tree.apply_queue("a < root: gpu=4 pods=1");
    assert_eq!(tree.available_to("root", "pods"), Some(6));
    tree.apply_queue("a < root: gpu=4");
    assert_eq!(tree.available_to("root", "pods"), Some(9));
    assert_eq!(tree.own_usage_of(at, flavor_resource("pods")), 4);
}

#[test]
fn usage_of_a_removed_resource_is_still_borrowed() {
    let mut tree = tree(&["c:", "a < c: gpu=4", "b < c: gpu=4"]);
    tree.charge_queue("a: gpu=3");
    tree.apply_queue("a < c: cpu=4");
    assert_eq!(tree.available_to("b", "gpu"), Some(1));
    assert_eq!(tree.borrowed_amount("a", "gpu"), 3);
    assert_eq!(borrowers(&tree, "b", 2), [("a".to_owned(), 3)]);
}

#[test]
fn every_exceeded_limit_is_listed() {
    let mut tree = tree(&[
        "root:",
        "left < root: gpu=0+1",
        "a < left: gpu=2+9",
        "b < left: gpu=2",
        "c < root: gpu=4",
    ]);
    tree.charge_queue("a: gpu=3");
    tree.charge_queue("b: gpu=1");
    tree.charge_queue("c: gpu=2");
    assert!(exceeded_limits(&tree, "a", "gpu=1").is_empty());
    assert_eq!(
        exceeded_limits(&tree, "a", "gpu=4"),
        ["left borrows 4/5, 3 missing", "root has 6/8, 2 missing"]
    );
    assert_eq!(
        exceeded_limits(&tree, "a", "gpu=9"),
        [
            "a borrows 3/11, 1 missing",
            "left borrows 4/5, 8 missing",
            "root has 6/8, 7 missing"
        ]
    );
    let lack = &tree.shortages(tree.queue_idx("a"), &demand("gpu=9"))[0];
    assert_eq!((lack.needs, lack.available), (9, 1));
    assert_eq!(lack.least_release(), 8);
    // The same limits without any usage.
    let never = tree.permanent_shortages(tree.queue_idx("a"), &demand("gpu=6"));
    let shortage = &never[0].exceeded_limits[0];
    assert_eq!((shortage.queue.as_str(), shortage.missing), ("left", 1));
    assert_eq!((shortage.used, shortage.max), (0, 5));
    assert_eq!((never[0].available, never[0].exceeded_limits.len()), (5, 1));
    assert!(
        tree.permanent_shortages(tree.queue_idx("a"), &demand("gpu=5"))
            .is_empty()
    );
}

#[test]
fn borrowers_of_a_resource_are_listed_largest_first() {
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
        tree.charge_queue(charge);
    }
    assert_eq!(tree.available_to("a", "gpu"), Some(0));
    let expected = [("inside", 3), ("b", 2), ("x", 2), ("y", 1)];
    let expected = expected.map(|(of, amount)| (of.to_owned(), amount));
    assert_eq!(borrowers(&tree, "a", 1), expected);
    let two = tree.borrowers(tree.queue_idx("a"), flavor_resource("gpu"), 1, 2);
    assert_eq!(two.len(), 2);
    // Quota that the queues below `left` borrow from `left` does not affect `d`.
    assert_eq!(borrowers(&tree, "d", 1), expected[1..]);
    // The result includes the queue itself if it borrows.
    assert_eq!(borrowers(&tree, "y", 1), expected[1..]);
    tree.apply_queue("b < root: gpu=1+2");
    assert_eq!(borrowers(&tree, "b", 1), expected[1..]);
    // Now only its own limit blocks it. No release by another queue could help.
    tree.release_queue("inside: gpu=3");
    assert_eq!(borrowers(&tree, "b", 1), expected[1..=1]);
    assert!(borrowers(&tree, "a", 1).is_empty(), "nothing is lacking");
    assert!(
        borrowers(&tree, "x", 1).is_empty(),
        "though it borrows itself"
    );
}

#[test]
fn queue_borrows_beyond_nominal_quota() {
    let mut tree = tree(&["c:", "a < c: gpu=4 cpu=9", "b < c: gpu=4"]);
    tree.charge_queue("a: gpu=3");
    let at = tree.queue_idx("a");
    assert!(!tree.borrows(at, &demand("gpu=1 cpu=9")));
    assert!(tree.borrows(at, &demand("gpu=2")));
    assert!(tree.borrows(at, &demand("gpu=1 cpu=10")));
    assert!(!tree.borrows(at, &demand("pods=99")));
}

#[test]
fn huge_amounts_are_released_exactly() {
    let mut tree = tree(&["c: gpu=5", "a < c: gpu=1", "b < c: gpu=4-1"]);
    let all = crate::quota::amounts::Demand::from_iter([(flavor_resource("gpu"), i128::MAX)]);
    tree.charge_queue("a: gpu=2");
    for _ in 0..100 {
        tree.charge(&name("a"), &all);
    }
    assert!(tree.available_to("a", "gpu") < Some(-1_000_000));
    assert_eq!(tree.available_to("b", "gpu"), Some(3));
    for _ in 0..100 {
        tree.release(&name("a"), &all);
    }
    assert_eq!(tree.available_to("a", "gpu"), Some(5));
    let remembered = tree.remembered_usage(tree.queue_idx("a"));
    assert!(remembered.usage.is_empty(), "at the same instant: no trace");
    // A release of more than the charge releases only the charge.
    tree.release_queue("a: gpu=9");
    assert_eq!(tree.available_to("a", "gpu"), Some(7));
    tree.release_queue("nobody: gpu=9");
    assert!(tree.number(&name("nobody")).is_none());
}
