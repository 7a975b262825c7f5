//! Tests of the shares of borrowed quota, by which queues take from each other.

use proptest::prelude::*;

use super::common::{cases, demand, empty, name, queue, resource};
use super::oracle::Oracle;
use super::random::{any_charges, any_demand, any_valid_tree, kinds};
use crate::ids::QueueName;
use crate::quota::fair_share::decay::UsageDecay;
use crate::quota::fair_share::share::FairShare;
use crate::quota::tree::QuotaTree;
use crate::quota::tree::queue_config::Weight;

fn tree(queues: &[(&str, u32)], charges: &[&str]) -> QuotaTree {
    let mut tree = empty(UsageDecay::default());
    for (text, weight) in queues {
        let (of, mut config) = queue(text);
        config.weight = Weight::from_thousandths(*weight);
        tree.apply(&of, config);
    }
    tree.set_capacity(resource("gpu"), 16);
    for charge in charges {
        tree.charge_queue(charge);
    }
    tree
}

/// Returns the share of `holder`, if it is larger than that of `asker` with a demand.
fn larger_share(tree: &QuotaTree, asker: &str, need: &str, holder: &str) -> Option<f64> {
    let (asker, holder) = (tree.queue_idx(asker), tree.queue_idx(holder));
    let share = tree.larger_share(asker, &demand(need), holder)?;
    Some(share.as_f64())
}

#[test]
fn only_usage_beyond_quota_counts() {
    let tree = tree(
        &[
            ("r: gpu=0", 1_000),
            ("a < r: gpu=8", 1_000),
            ("b < r: gpu=0", 1_000),
            ("c < r: gpu=8", 1_000),
        ],
        &["a: gpu=8", "b: gpu=8"],
    );
    // The 8 GPUs of `a` are its own, so `b` has the larger share, and `a` may borrow 7 of it.
    assert_eq!(larger_share(&tree, "a", "gpu=7", "b"), Some(0.5));
    assert_eq!(larger_share(&tree, "a", "gpu=8", "b"), None);
    assert_eq!(larger_share(&tree, "b", "gpu=1", "a"), None);
}

#[test]
fn weights_divide_shares_and_weight_zero_comes_last() {
    let queues = [
        ("r: gpu=16", 1_000),
        ("a < r: gpu=0", 3_000),
        ("b < r: gpu=0", 1_000),
        ("z < r: gpu=0", 0),
    ];
    let tree = tree(&queues, &["a: gpu=9", "b: gpu=4"]);
    assert_eq!(larger_share(&tree, "a", "gpu=2", "b"), Some(0.25));
    assert_eq!(larger_share(&tree, "a", "gpu=3", "b"), None);
    assert_eq!(larger_share(&tree, "b", "gpu=1", "a"), None);
    assert_eq!(larger_share(&tree, "z", "gpu=1", "a"), None);
    let mut tree = tree;
    tree.charge_queue("z: gpu=1");
    assert_eq!(larger_share(&tree, "b", "gpu=1", "z"), Some(f64::INFINITY));
}

#[test]
fn siblings_below_the_lowest_common_parent_are_compared() {
    let queues = [
        ("r: gpu=16", 1_000),
        ("x < r: gpu=0", 1_000),
        ("y < r: gpu=0", 1_000),
        ("a < x: gpu=0", 1_000),
        ("b < x: gpu=0", 1_000),
        ("c < y: gpu=0", 1_000),
    ];
    let tree = tree(&queues, &["a: gpu=4", "b: gpu=4", "c: gpu=6"]);
    // `x` holds 8 and `y` holds 6, although `c` holds more than `a`.
    assert_eq!(larger_share(&tree, "a", "gpu=1", "c"), None);
    assert_eq!(larger_share(&tree, "c", "gpu=1", "a"), Some(0.5));
    assert_eq!(larger_share(&tree, "c", "gpu=2", "a"), None);
    // Below `x`, the queues themselves are compared.
    assert_eq!(larger_share(&tree, "b", "gpu=1", "a"), None);
}

#[test]
fn tree_without_quotas_borrows_everything() {
    let tree = tree(
        &[("r", 1_000), ("a < r", 1_000), ("b < r", 1_000)],
        &["a: gpu=12 pods=2"],
    );
    assert_eq!(larger_share(&tree, "b", "gpu=4 pods=9", "a"), Some(0.75));
    assert_eq!(larger_share(&tree, "b", "gpu=12", "a"), None);
}

#[test]
fn pods_without_quota_of_pods_do_not_count() {
    let mut tree = tree(
        &[
            ("r: gpu=16", 1_000),
            ("a < r: gpu=0", 1_000),
            ("b < r: gpu=0 pods=2", 1_000),
        ],
        &["b: gpu=4 pods=4"],
    );
    tree.set_capacity(resource("pods"), 16);
    // The queue `a` names no quota of pods, so its 8 pods are not charged.
    assert_eq!(larger_share(&tree, "a", "gpu=1 pods=8", "b"), Some(0.25));
}

/// Returns the share of borrowed quota of a queue, from the rules.
fn share_by_oracle(oracle: &Oracle, of: &QueueName, capacity: i128) -> FairShare {
    let root = name("q0");
    let pods = |what: &crate::quota::amounts::FlavorResource| what.resource == resource("pods");
    let named = oracle.all_below(&root).into_iter().any(|queue| {
        let quotas = oracle.queues[&queue].quotas.clone();
        quotas.into_iter().flatten().any(|(what, _)| pods(&what))
    });
    let amount = |of_resource: &str| {
        let same = kinds()
            .into_iter()
            .filter(|what| what.resource == resource(of_resource));
        let counted = same.filter(|what| named || !pods(what));
        let borrowed =
            counted.map(|what| (oracle.usage(of, what) - oracle.subtree(of, what)).max(0));
        borrowed.sum::<i128>()
    };
    let most = ["gpu", "cpu", "pods"]
        .into_iter()
        .map(amount)
        .max()
        .unwrap();
    let weight = oracle.queues[of].weight.as_thousandths();
    FairShare::weighted(most * (1 << 48) / capacity, weight)
}

proptest! {
    #![proptest_config(cases(1_000))]

    /// The share with a demand is the share after the queue has been charged.
    #[test]
    fn larger_share_equals_that_of_the_oracle(
        (mut oracle, leaves) in any_valid_tree(),
        weights in prop::collection::vec(prop_oneof![Just(0), Just(500), Just(1_000), Just(3_000)], 7),
        charges in any_charges(),
        (asker, holder) in any::<(prop::sample::Index, prop::sample::Index)>(),
        demand in any_demand(),
    ) {
        let (asker, holder) = (asker.get(&leaves), holder.get(&leaves));
        if asker == holder {
            return Ok(());
        }
        for (config, weight) in oracle.queues.values_mut().zip(&weights) {
            config.weight = Weight::from_thousandths(*weight);
        }
        for (leaf, demand, _) in &charges {
            oracle.charge(leaf.get(&leaves), demand);
        }
        let mut tree = oracle.rebuilt();
        for kind in kinds() {
            tree.set_capacity(kind.resource, 40);
        }
        let (from, to) = (oracle.path(asker).unwrap(), oracle.path(holder).unwrap());
        let common = to.iter().find(|at| from.contains(at)).unwrap();
        let child = |path: &[QueueName]| {
            let below = path.iter().take_while(|at| *at != common);
            below.last().cloned().unwrap()
        };
        let theirs = share_by_oracle(&oracle, &child(&to), 40);
        oracle.charge(asker, &demand);
        let own = share_by_oracle(&oracle, &child(&from), 40);
        let at = |queue| tree.find(queue).unwrap();
        prop_assert_eq!(
            tree.larger_share(at(asker), &demand, at(holder)),
            (own < theirs).then_some(theirs)
        );
    }
}
