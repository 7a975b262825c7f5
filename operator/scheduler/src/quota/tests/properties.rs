//! Tests with random trees and random charges.

use std::cmp::Reverse;

use proptest::prelude::*;

use super::common::{cases, flavor_resource, tree as tree_of};
use super::oracle::Oracle;
use super::random::{
    QUEUES, any_charges, any_demand, any_event, any_valid_tree, apply_event, kinds, queue_name,
};
use crate::ids::QueueName;
use crate::quota::amounts::{Demand, FlavorResource};
use crate::quota::claim::ClaimKind;
use crate::quota::tree::QuotaTree;

/// Returns every answer that a tree can give.
fn all_answers(tree: &QuotaTree) -> Vec<String> {
    let names = (0..QUEUES).map(queue_name);
    let usages = names.map(|of| {
        let Some(at) = tree.find(&of) else {
            return format!("{of} {}", tree.number(&of).is_some());
        };
        let of_kind = |kind: FlavorResource| {
            let (room, ever) = (
                tree.available(at, kind),
                tree.available_when_empty(at, kind),
            );
            let held = tree.subtree_usage(at, kind.resource);
            let borrowers = tree.borrowers(at, kind, 5, 3);
            let demand = Demand::from_iter([(kind, 5)]);
            let lacks = tree.shortages(at, &demand);
            let names = (0..QUEUES).filter_map(|at| tree.find(&queue_name(at)));
            let back: Vec<_> = names
                .map(|of| tree.claim(at, &demand, of, |_| true))
                .collect();
            format!("{room:?} {ever:?} {held} {borrowers:?} {lacks:?} {back:?}")
        };
        format!(
            "{of} {:?} {} {:?} {:?}",
            tree.fault(at),
            tree.is_leaf(at),
            tree.quota_usages(at),
            kinds().map(of_kind),
        )
    });
    usages.collect()
}

fn sum_of(oracle: &Oracle, amount: impl Fn(&QueueName) -> i128) -> i128 {
    oracle.queues.keys().map(amount).sum()
}

/// Charges the demands that fit and releases some of them again. Calls `check` after each step.
fn charge_fitting(
    oracle: &mut Oracle,
    leaves: &[QueueName],
    charges: &[(prop::sample::Index, Demand, bool)],
    mut check: impl FnMut(&QuotaTree, &Oracle) -> Result<(), TestCaseError>,
) -> Result<QuotaTree, TestCaseError> {
    let mut tree = oracle.rebuilt();
    let mut taken = Vec::new();
    for (at, demand, back) in charges {
        let leaf = at.get(leaves);
        if tree.fits(tree.find(leaf).unwrap(), demand) {
            tree.charge(leaf, demand);
            oracle.charge(leaf, demand);
            taken.push((leaf, demand));
        }
        if *back && !taken.is_empty() {
            let (leaf, demand) = taken.swap_remove(at.index(taken.len()));
            tree.release(leaf, demand);
            oracle.release(leaf, demand);
        }
        check(&tree, oracle)?;
    }
    Ok(tree)
}

/// Charges all demands, also those that do not fit.
fn charge_all(
    oracle: &mut Oracle,
    leaves: &[QueueName],
    charges: &[(prop::sample::Index, Demand, bool)],
) -> QuotaTree {
    let mut tree = oracle.rebuilt();
    for (at, demand, _) in charges {
        tree.charge(at.get(leaves), demand);
        oracle.charge(at.get(leaves), demand);
    }
    tree
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn tree_after_random_events_equals_a_rebuilt_tree(
        events in prop::collection::vec(any_event(), 0..40),
    ) {
        let mut tree = tree_of(&[]);
        let mut oracle = Oracle::default();
        for event in events {
            apply_event(&mut tree, &mut oracle, event);
            for of in oracle.queues.keys() {
                let at = tree.find(of).unwrap();
                let sound = tree.fault(at).is_none();
                prop_assert_eq!(sound, oracle.path(of).is_some(), "{}", of);
                for kind in kinds() {
                    let room = oracle.available(of, kind);
                    prop_assert_eq!(tree.available(at, kind), room, "{} {:?}", of, kind);
                    if sound {
                        let standings = tree.quota_usages(at);
                        let found = standings.iter().find(|s| s.flavor_resource == kind);
                        let found = found.map_or((0, 0), |s| (s.quota, s.usage));
                        let expected = (oracle.subtree(of, kind), oracle.usage(of, kind));
                        prop_assert_eq!(found, expected, "{} {:?}", of, kind);
                    }
                }
            }
        }
        prop_assert_eq!(all_answers(&tree), all_answers(&oracle.rebuilt()));
        // The tree is empty after all charges are released and all queues deleted.
        for (of, charged) in &oracle.charged {
            tree.release(of, &charged.iter().map(|(w, n)| (*w, *n)).collect());
        }
        for at in 0..QUEUES {
            tree.delete(&queue_name(at));
        }
        for at in 0..QUEUES {
            prop_assert!(tree.number(&queue_name(at)).is_none());
        }
    }

    #[test]
    fn released_charges_leave_no_usage(
        events in prop::collection::vec(any_event(), 0..30),
        charges in prop::collection::vec((0..QUEUES, any_demand()), 0..8),
    ) {
        let mut tree = tree_of(&[]);
        let mut oracle = Oracle::default();
        for event in events {
            apply_event(&mut tree, &mut oracle, event);
        }
        let before = format!("{:?}", all_answers(&tree));
        for (at, demand) in &charges {
            tree.charge(&queue_name(*at), demand);
        }
        for (at, demand) in &charges {
            tree.release(&queue_name(*at), demand);
        }
        prop_assert_eq!(before, format!("{:?}", all_answers(&tree)));
    }

    #[test]
    fn charging_available_quota_respects_every_guarantee(
        (mut oracle, leaves) in any_valid_tree(),
        charges in any_charges(),
    ) {
        let root = queue_name(0);
        let filled = charge_fitting(&mut oracle, &leaves, &charges, |tree, oracle| {
            for kind in kinds() {
                let used = oracle.usage(&root, kind);
                prop_assert!(used <= oracle.subtree(&root, kind), "the root is over");
                let nominal = |q: &QueueName| {
                    let named = oracle.queues[q].quotas.as_ref().and_then(|n| n.get(&kind));
                    named.map_or(0, |n| i128::from(n.nominal))
                };
                let counted = |q: &QueueName| {
                    let exempt = tree.available(tree.find(q).unwrap(), kind).is_none();
                    if exempt { 0 } else { oracle.own_usage(q, kind) }
                };
                prop_assert!(sum_of(oracle, counted) <= sum_of(oracle, nominal));
                for leaf in &leaves {
                    let kept = (oracle.local(leaf, kind) - oracle.usage(leaf, kind)).max(0);
                    let room = tree.available(tree.find(leaf).unwrap(), kind);
                    prop_assert!(room.is_none_or(|room| room >= kept), "{} is robbed", leaf);
                }
            }
            Ok(())
        })?;
        // All leaves may use their local quota at the same time.
        let mut tree = filled;
        for leaf in &leaves {
            let kept = kinds().map(|k| (k, oracle.local(leaf, k) - oracle.usage(leaf, k)));
            let kept: Demand = kept.into_iter().collect();
            prop_assert!(tree.fits(tree.find(leaf).unwrap(), &kept));
            tree.charge(leaf, &kept);
        }
    }

    #[test]
    fn overuse_of_other_queues_never_reduces_local_quota(
        (mut oracle, leaves) in any_valid_tree(),
        charges in any_charges(),
    ) {
        let tree = charge_all(&mut oracle, &leaves, &charges);
        for of in oracle.queues.keys() {
            for kind in kinds() {
                let (local, usage) = (oracle.local(of, kind), oracle.usage(of, kind));
                let room = tree.available(tree.find(of).unwrap(), kind);
                // A queue that does not name the resource does not offer it.
                if usage <= local && local > 0 {
                    prop_assert!(room.is_some_and(|room| room >= local - usage));
                }
            }
        }
    }

    #[test]
    fn raising_limits_by_the_reported_shortage_is_exactly_enough(
        (mut oracle, leaves) in any_valid_tree(),
        charges in any_charges(),
        asked in any::<prop::sample::Index>(),
        need in 1..20_i128,
    ) {
        let kind = flavor_resource("gpu");
        let mut tree = charge_all(&mut oracle, &leaves, &charges);
        let leaf = asked.get(&leaves);
        let at = tree.find(leaf).unwrap();
        let demand = Demand::from_iter([(kind, need)]);
        let room = tree.available(at, kind);
        prop_assert_eq!(tree.fits(at, &demand), room.is_none_or(|room| room >= need));
        let lacks = tree.shortages(at, &demand);
        prop_assert_eq!(lacks.is_empty(), tree.fits(at, &demand) || !tree.offers(at, kind));
        let Some(lack) = lacks.first() else { return Ok(()) };
        prop_assert_eq!(Some(lack.available), room);
        // The demand fits if all limits are raised by the missing amounts. If one raise is smaller
        // by 1, it does not fit.
        let raise = |less: Option<usize>| {
            let mut raised = oracle.clone();
            for (place, shortage) in lack.exceeded_limits.iter().enumerate() {
                let by = i64::try_from(shortage.missing).unwrap() - i64::from(less == Some(place));
                let member = raised.queues.get_mut(&shortage.queue).unwrap();
                let quota = member.quotas.get_or_insert_default().entry(kind).or_default();
                match quota.borrowing_limit.as_mut().filter(|_| shortage.borrowing_limit) {
                    Some(limit) => *limit += by,
                    None => quota.nominal += by,
                }
            }
            let tree = raised.rebuilt();
            tree.fits(tree.find(leaf).unwrap(), &demand)
        };
        prop_assert!(raise(None));
        for place in 0..lack.exceeded_limits.len() {
            prop_assert!(!raise(Some(place)));
        }
        // The demand does not fit before other gangs give back this amount.
        let mut given = 0;
        for (at, demand, _) in &charges {
            tree.release(at.get(&leaves), demand);
            given += demand.iter().find(|(w, _)| *w == kind).map_or(0, |(_, n)| n);
            if tree.fits(tree.find(leaf).unwrap(), &Demand::from_iter([(kind, need)])) {
                prop_assert!(given >= lack.least_release());
                break;
            }
        }
    }

    #[test]
    fn borrowers_are_listed_largest_first(
        (mut oracle, leaves) in any_valid_tree(),
        charges in any_charges(),
        asked in any::<prop::sample::Index>(),
        demand in any_demand(),
    ) {
        let tree = charge_all(&mut oracle, &leaves, &charges);
        let at = tree.find(asked.get(&leaves)).unwrap();
        for (kind, need) in demand.iter() {
            let borrowers = tree.borrowers(at, kind, need, usize::MAX);
            prop_assert!(borrowers.is_sorted_by_key(|b| Reverse(b.borrowed)));
            let first = tree.borrowers(at, kind, need, 2);
            prop_assert_eq!(&first[..], &borrowers[..borrowers.len().min(2)]);
            for one in &borrowers {
                let of = tree.find(&one.queue).unwrap();
                let borrowed = tree.quota_usages(of).iter().find(|s| s.flavor_resource == kind).unwrap().borrowed;
                prop_assert!(0 < one.borrowed && one.borrowed <= borrowed);
            }
        }
    }

    #[test]
    fn claims_equal_those_of_the_oracle(
        (mut oracle, leaves) in any_valid_tree(),
        charges in any_charges(),
        asked in any::<prop::sample::Index>(),
        demand in any_demand(),
        only in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let tree = charge_all(&mut oracle, &leaves, &charges);
        let leaf = asked.get(&leaves);
        let lacks = |what: FlavorResource| only.is_none_or(|i| *i.get(&kinds()) == what);
        for holder in leaves.iter().filter(|holder| *holder != leaf) {
            let (from, to) = (tree.find(leaf).unwrap(), tree.find(holder).unwrap());
            let claimed = tree.claim(from, &demand, to, lacks);
            let claimed = claimed.map(|c| (c.terms.kind == ClaimKind::Owed, c.remaining));
            prop_assert_eq!(claimed, oracle.claim(leaf, &demand, holder, lacks));
        }
    }

    #[test]
    fn reclaim_restores_every_guaranteed_quota(
        (mut oracle, leaves) in any_valid_tree(),
        charges in any_charges(),
        asked in any::<prop::sample::Index>(),
        demand in any_demand(),
    ) {
        let mut tree = charge_all(&mut oracle, &leaves, &charges);
        let leaf = asked.get(&leaves);
        let at = tree.find(leaf).unwrap();
        let offered = demand.iter().all(|(kind, _)| tree.offers(at, kind));
        if !offered || tree.borrows(at, &demand) {
            return Ok(());
        }
        // Each queue gives back the amount that it borrows, while the demand lacks quota.
        while let Some(lack) = tree.shortages(at, &demand).first() {
            let others = leaves.iter().filter(|holder| *holder != leaf);
            let claimed = others.filter_map(|holder| {
                let to = tree.find(holder)?;
                Some((holder, tree.claim(at, &demand, to, |what| what == lack.flavor_resource)?))
            });
            let claimed = claimed.max_by_key(|(_, claimed)| claimed.remaining);
            prop_assert!(claimed.is_some(), "it is guaranteed, but {lack:?}");
            let (holder, claimed) = claimed.unwrap();
            prop_assert_eq!(claimed.terms.kind, ClaimKind::Owed);
            tree.release(holder, &Demand::from_iter([(claimed.flavor_resource, claimed.remaining)]));
        }
        prop_assert!(tree.fits(at, &demand));
    }
}
