//! Tests with random trees and random charges.

use std::cmp::Reverse;

use proptest::prelude::*;

use super::common::{cases, tree as tree_of, what};
use super::oracle::Oracle;
use super::random::{
    QUEUES, any_charges, any_demand, any_event, any_sound, happen, kinds, queue_name,
};
use crate::ids::QueueName;
use crate::quota::amounts::{Demand, FlavorResource};
use crate::quota::claim::Claim;
use crate::quota::tree::Tree;

/// Every answer that a tree can give.
fn told(tree: &Tree) -> Vec<String> {
    let names = (0..QUEUES).map(queue_name);
    let told = names.map(|of| {
        let Some(at) = tree.find(&of) else {
            return format!("{of} {}", tree.number(&of).is_some());
        };
        let of_kind = |kind: FlavorResource| {
            let (room, ever) = (tree.available(at, kind), tree.could_ever(at, kind));
            let held = tree.held(at, kind.resource);
            let borrowers = tree.borrowers(at, kind, 5, 3);
            let demand = Demand::from_iter([(kind, 5)]);
            let lacks = tree.lacks(at, &demand);
            let names = (0..QUEUES).filter_map(|at| tree.find(&queue_name(at)));
            let back: Vec<_> = names
                .map(|of| tree.claim(at, &demand, of, |_| true))
                .collect();
            format!("{room:?} {ever:?} {held} {borrowers:?} {lacks:?} {back:?}")
        };
        format!(
            "{of} {:?} {} {:?} {:?}",
            tree.misconfigured(at),
            tree.is_leaf(at),
            tree.standings(at),
            kinds().map(of_kind),
        )
    });
    told.collect()
}

fn sum_of(oracle: &Oracle, amount: impl Fn(&QueueName) -> i128) -> i128 {
    oracle.queues.keys().map(amount).sum()
}

/// Charges what fits and releases some of it again; calls `check` after each step.
fn fill(
    oracle: &mut Oracle,
    leaves: &[QueueName],
    charges: &[(prop::sample::Index, Demand, bool)],
    mut check: impl FnMut(&Tree, &Oracle) -> Result<(), TestCaseError>,
) -> Result<Tree, TestCaseError> {
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

/// Charges everything, whether it fits or not.
fn charged(
    oracle: &mut Oracle,
    leaves: &[QueueName],
    charges: &[(prop::sample::Index, Demand, bool)],
) -> Tree {
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
    fn after_any_events_the_tree_is_as_if_built_from_what_is_there(
        events in prop::collection::vec(any_event(), 0..40),
    ) {
        let mut tree = tree_of(&[]);
        let mut oracle = Oracle::default();
        for event in events {
            happen(&mut tree, &mut oracle, event);
            for of in oracle.queues.keys() {
                let at = tree.find(of).unwrap();
                let sound = tree.misconfigured(at).is_none();
                prop_assert_eq!(sound, oracle.path(of).is_some(), "{}", of);
                for kind in kinds() {
                    let room = oracle.available(of, kind);
                    prop_assert_eq!(tree.available(at, kind), room, "{} {:?}", of, kind);
                    if sound {
                        let standings = tree.standings(at);
                        let found = standings.iter().find(|s| s.what == kind);
                        let found = found.map_or((0, 0), |s| (s.quota, s.usage));
                        let expected = (oracle.subtree(of, kind), oracle.usage(of, kind));
                        prop_assert_eq!(found, expected, "{} {:?}", of, kind);
                    }
                }
            }
        }
        prop_assert_eq!(told(&tree), told(&oracle.rebuilt()));
        // The tree is empty once everything is released and deleted.
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
    fn what_was_charged_is_taken_back_exactly(
        events in prop::collection::vec(any_event(), 0..30),
        charges in prop::collection::vec((0..QUEUES, any_demand()), 0..8),
    ) {
        let mut tree = tree_of(&[]);
        let mut oracle = Oracle::default();
        for event in events {
            happen(&mut tree, &mut oracle, event);
        }
        let before = format!("{:?}", told(&tree));
        for (at, demand) in &charges {
            tree.charge(&queue_name(*at), demand);
        }
        for (at, demand) in &charges {
            tree.release(&queue_name(*at), demand);
        }
        prop_assert_eq!(before, format!("{:?}", told(&tree)));
    }

    #[test]
    fn charging_what_is_available_keeps_every_promise(
        (mut oracle, leaves) in any_sound(),
        charges in any_charges(),
    ) {
        let root = queue_name(0);
        let filled = fill(&mut oracle, &leaves, &charges, |tree, oracle| {
            for kind in kinds() {
                let used = oracle.usage(&root, kind);
                prop_assert!(used <= oracle.subtree(&root, kind), "the root is over");
                let nominal = |q: &QueueName| {
                    let named = oracle.queues[q].quotas.as_ref().and_then(|n| n.get(&kind));
                    named.map_or(0, |n| i128::from(n.nominal))
                };
                let counted = |q: &QueueName| {
                    let exempt = tree.available(tree.find(q).unwrap(), kind).is_none();
                    if exempt { 0 } else { oracle.own(q, kind) }
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
    fn debts_of_others_never_reach_what_a_queue_keeps(
        (mut oracle, leaves) in any_sound(),
        charges in any_charges(),
    ) {
        let tree = charged(&mut oracle, &leaves, &charges);
        for of in oracle.queues.keys() {
            for kind in kinds() {
                let (local, usage) = (oracle.local(of, kind), oracle.usage(of, kind));
                let room = tree.available(tree.find(of).unwrap(), kind);
                // A queue that does not name the resource is not offered any.
                if usage <= local && local > 0 {
                    prop_assert!(room.is_some_and(|room| room >= local - usage));
                }
            }
        }
    }

    #[test]
    fn what_lacks_is_what_would_help(
        (mut oracle, leaves) in any_sound(),
        charges in any_charges(),
        asked in any::<prop::sample::Index>(),
        need in 1..20_i128,
    ) {
        let kind = what("gpu");
        let mut tree = charged(&mut oracle, &leaves, &charges);
        let leaf = asked.get(&leaves);
        let at = tree.find(leaf).unwrap();
        let demand = Demand::from_iter([(kind, need)]);
        let room = tree.available(at, kind);
        prop_assert_eq!(tree.fits(at, &demand), room.is_none_or(|room| room >= need));
        let lacks = tree.lacks(at, &demand);
        prop_assert_eq!(lacks.is_empty(), tree.fits(at, &demand) || !tree.offers(at, kind));
        let Some(lack) = lacks.first() else { return Ok(()) };
        prop_assert_eq!(Some(lack.available), room);
        // With all limits raised by what is missing the demand fits; with one of them raised by 1
        // less it does not.
        let raise = |less: Option<usize>| {
            let mut raised = oracle.clone();
            for (place, shortage) in lack.shortages.iter().enumerate() {
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
        for place in 0..lack.shortages.len() {
            prop_assert!(!raise(Some(place)));
        }
        // The demand does not fit before this much has been given back.
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
    fn who_borrows_is_told_the_largest_first(
        (mut oracle, leaves) in any_sound(),
        charges in any_charges(),
        asked in any::<prop::sample::Index>(),
        demand in any_demand(),
    ) {
        let tree = charged(&mut oracle, &leaves, &charges);
        let at = tree.find(asked.get(&leaves)).unwrap();
        for (kind, need) in demand.iter() {
            let told = tree.borrowers(at, kind, need, usize::MAX);
            prop_assert!(told.is_sorted_by_key(|b| Reverse(b.borrowed)));
            let first = tree.borrowers(at, kind, need, 2);
            prop_assert_eq!(&first[..], &told[..told.len().min(2)]);
            for one in &told {
                let of = tree.find(&one.queue).unwrap();
                let borrowed = tree.standings(of).iter().find(|s| s.what == kind).unwrap().borrowed;
                prop_assert!(0 < one.borrowed && one.borrowed <= borrowed);
            }
        }
    }

    #[test]
    fn claims_are_those_of_the_rules(
        (mut oracle, leaves) in any_sound(),
        charges in any_charges(),
        asked in any::<prop::sample::Index>(),
        demand in any_demand(),
        only in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let tree = charged(&mut oracle, &leaves, &charges);
        let leaf = asked.get(&leaves);
        let lacks = |what: FlavorResource| only.is_none_or(|i| *i.get(&kinds()) == what);
        for holder in leaves.iter().filter(|holder| *holder != leaf) {
            let (from, to) = (tree.find(leaf).unwrap(), tree.find(holder).unwrap());
            let claimed = tree.claim(from, &demand, to, lacks);
            let claimed = claimed.map(|c| (c.claim == Claim::Owed, c.left));
            prop_assert_eq!(claimed, oracle.claim(leaf, &demand, holder, lacks));
        }
    }

    #[test]
    fn what_may_be_reclaimed_is_enough_for_what_is_guaranteed(
        (mut oracle, leaves) in any_sound(),
        charges in any_charges(),
        asked in any::<prop::sample::Index>(),
        demand in any_demand(),
    ) {
        let mut tree = charged(&mut oracle, &leaves, &charges);
        let leaf = asked.get(&leaves);
        let at = tree.find(leaf).unwrap();
        let offered = demand.iter().all(|(kind, _)| tree.offers(at, kind));
        if !offered || tree.borrows(at, &demand) {
            return Ok(());
        }
        // Each queue gives back what it borrows, as long as something is missing.
        while let Some(lack) = tree.lacks(at, &demand).first() {
            let others = leaves.iter().filter(|holder| *holder != leaf);
            let claimed = others.filter_map(|holder| {
                let to = tree.find(holder)?;
                Some((holder, tree.claim(at, &demand, to, |what| what == lack.what)?))
            });
            let claimed = claimed.max_by_key(|(_, claimed)| claimed.left);
            prop_assert!(claimed.is_some(), "it is guaranteed, but {lack:?}");
            let (holder, claimed) = claimed.unwrap();
            prop_assert_eq!(claimed.claim, Claim::Owed);
            tree.release(holder, &Demand::from_iter([(claimed.what, claimed.left)]));
        }
        prop_assert!(tree.fits(at, &demand));
    }
}
