//! Tests of which gangs are victims if several sets of gangs would suffice.

use std::collections::BTreeSet;

use crate::common::*;
use crate::preemption::queues::{RECLAIM, queue_below, small_gang};
use crate::preemption::{LOWER, engine_with_priority_preemption, run_cycle_at, seconds};
use proptest::prelude::*;
use trellis_scheduler::{
    Decision, Engine, Gang, PreemptionPolicy, ReclaimPolicy, WithinQueuePolicy,
};

const BOTH: PreemptionPolicy = PreemptionPolicy {
    within_queue: WithinQueuePolicy::LowerPriority,
    ..RECLAIM
};

/// Returns an engine with teams with this nominal quota below one root, on two nodes of 8 GPUs.
fn engine_with_teams(nominal: [i64; 2]) -> Engine {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(queue_below("all", None, 0, PreemptionPolicy::default()));
    for (team, nominal) in ["a", "b"].into_iter().zip(nominal) {
        engine.apply_queue(queue_below(team, Some("all"), nominal, BOTH));
    }
    engine
}

fn one_pod_gang(priority: i32, name: &str, gpus: i64) -> Gang {
    Gang {
        priority,
        ..workers(name, 1, gpu(1, gpus))
    }
}

#[test]
fn own_queue_gang_and_borrower_leave_together() {
    let mut engine = engine_with_teams([2, 2]);
    engine.apply_gang(small_gang("a", -1, "own", 1));
    for name in ["b1", "b2", "b3"] {
        engine.apply_gang(small_gang("b", 0, name, 1));
    }
    assert_eq!(run_cycle_at(&mut engine, seconds(0)).len(), 4);
    engine.apply_gang(small_gang("a", 0, "in", 2));
    let said = run_cycle_at(&mut engine, seconds(600));
    let [said] = said.as_slice() else {
        panic!("{said:?}");
    };
    let victims: Vec<&str> = said.split(' ').skip(1).collect();
    assert_eq!(victims.len(), 2, "{said}");
    assert!(victims.iter().any(|v| v.starts_with('b')), "{said}");
    assert!(victims.contains(&"own"), "{said}");
}

/// If only the borrowers left, `a` would hold 3 of its 2. It may not reclaim quota for that.
#[test]
fn borrower_does_not_leave_for_quota_that_would_be_borrowed() {
    let mut engine = engine_with_teams([2, 2]);
    engine.apply_gang(Gang {
        preemptible: false,
        ..small_gang("a", -1, "own", 1)
    });
    for name in ["b1", "b2", "b3"] {
        engine.apply_gang(small_gang("b", 0, name, 1));
    }
    assert_eq!(run_cycle_at(&mut engine, seconds(0)).len(), 4);
    engine.apply_gang(small_gang("a", 0, "in", 2));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(600)),
        ["-in QuotaExceeded"]
    );
}

#[test]
fn owed_quota_is_reclaimed_before_a_gang_of_the_same_queue_leaves() {
    let mut engine = engine_with_teams([6, 6]);
    engine.apply_gang(small_gang("a", -1, "own", 3));
    engine.apply_gang(small_gang("b", 0, "borrower", 3));
    engine.apply_gang(small_gang("b", 0, "b-own", 6));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)).len(), 3);
    engine.apply_gang(small_gang("a", 0, "in", 3));
    assert_eq!(run_cycle_at(&mut engine, seconds(600)), ["!in borrower"]);
}

/// A queue reclaims GPUs owed to it, although it would borrow cores. There are enough cores.
#[test]
fn sufficient_resource_does_not_prevent_reclaim() {
    let mut engine = engine([gpu_node("n0", 1)]);
    let limits = |name: &str, parent: Option<&str>, cores: i64, gpus: i64, preemption| {
        let amounts = [("cpu", cores * 1_000), (GPU, gpus)];
        trellis_scheduler::Queue {
            parent: parent.map(trellis_scheduler::QueueName::new),
            preemption,
            ..queue(name, Some(&amounts))
        }
    };
    engine.apply_queue(limits("all", None, 0, 0, PreemptionPolicy::default()));
    engine.apply_queue(limits("a", Some("all"), 0, 1, RECLAIM));
    engine.apply_queue(limits("b", Some("all"), 8, 0, RECLAIM));
    engine.apply_gang(small_gang("b", 0, "borrower", 1));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+borrower"]);
    engine.apply_gang(small_gang("a", 0, "owed", 1));
    assert_eq!(run_cycle_at(&mut engine, seconds(600)), ["!owed borrower"]);
}

/// The same for a queue without quota, beside the tree.
#[test]
fn sufficient_resource_does_not_protect_a_queue_without_quota() {
    let mut engine = engine([gpu_node("n0", 1)]);
    engine.apply_queue(trellis_scheduler::Queue {
        preemption: RECLAIM,
        ..queue("a", Some(&[("cpu", 0), (GPU, 1)]))
    });
    engine.apply_queue(trellis_scheduler::Queue {
        parent: Some(trellis_scheduler::QueueName::new("root")),
        preemption: RECLAIM,
        ..queue("a", Some(&[("cpu", 0), (GPU, 1)]))
    });
    engine.apply_queue(queue("root", Some(&[("cpu", 8_000), (GPU, 0)])));
    engine.apply_gang(small_gang("default", 0, "unlimited", 1));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+unlimited"]);
    engine.apply_gang(small_gang("a", 0, "owed", 1));
    assert_eq!(run_cycle_at(&mut engine, seconds(600)), ["!owed unlimited"]);
}

#[test]
fn single_gang_is_evicted_if_it_loses_less_than_several_small_gangs() {
    let mut engine = engine_with_priority_preemption(1);
    for name in ["s0", "s1", "s2", "s3"] {
        engine.apply_gang(one_pod_gang(0, name, 1));
    }
    assert_eq!(run_cycle_at(&mut engine, seconds(0)).len(), 4);
    engine.apply_gang(one_pod_gang(0, "big", 4));
    assert_eq!(run_cycle_at(&mut engine, seconds(500)), ["+big"]);
    engine.apply_gang(one_pod_gang(1, "urgent", 4));
    assert_eq!(run_cycle_at(&mut engine, seconds(1_000)), ["!urgent big"]);
}

/// The gang needs five GPUs. A gang of 4 and a gang of 1 lose less than five small gangs, and less
/// than the gang of 7.
#[test]
fn large_and_small_gangs_are_evicted_together_if_that_loses_least() {
    let mut engine = engine_with_priority_preemption(2);
    engine.apply_gang(one_pod_gang(0, "seven", 7));
    run_cycle_at(&mut engine, seconds(0));
    for name in ["s0", "s1", "s2", "s3", "s4"] {
        engine.apply_gang(one_pod_gang(0, name, 1));
    }
    run_cycle_at(&mut engine, seconds(100));
    engine.apply_gang(one_pod_gang(0, "four", 4));
    run_cycle_at(&mut engine, seconds(200));
    let urgent = Gang {
        priority: 1,
        ..workers("urgent", 6, gpu(1, 1))
    };
    // `seven` loses 7,000. `four` (3,200) and two other gangs (900 each) make room for six small
    // pods.
    engine.apply_gang(urgent);
    let decisions = engine.cycle(seconds(1_000));
    let [Decision::Preempt { victims, .. }] = decisions.as_slice() else {
        panic!("{:?}", format_decisions(&decisions));
    };
    let lost: u64 = victims.iter().map(|v| v.lost_device_seconds).sum();
    assert_eq!(lost, 3_200 + 2 * 900, "{:?}", format_decisions(&decisions));
}

/// Returns the least loss of all sets of gangs on a node that would suffice.
fn least_loss(held: &[(i64, i64)], free: i64, needs: i64, now: i64) -> Option<i64> {
    let sets = 0_u32..(1 << held.len());
    let chosen = |set: u32| {
        let one = move |(at, gang): (usize, &(i64, i64))| (set >> at & 1 == 1).then_some(*gang);
        held.iter().enumerate().filter_map(one).collect::<Vec<_>>()
    };
    let fits =
        |set: &Vec<(i64, i64)>| free + set.iter().map(|(gpus, _)| gpus).sum::<i64>() >= needs;
    let loss = |set: Vec<(i64, i64)>| set.iter().map(|(gpus, since)| gpus * (now - since)).sum();
    sets.map(chosen).filter(fits).map(loss).min()
}

proptest! {
    #![proptest_config(cases(600))]

    /// On one node the chosen set loses no more than any other set that would suffice.
    #[test]
    fn victim_set_on_a_node_loses_least(
        gangs in prop::collection::vec((1..6_i64, 0..900_i64), 1..9),
        needs in 1..16_i64,
    ) {
        let mut engine = engine([gpu_node("n0", 16)]);
        engine.apply_queue(trellis_scheduler::Queue {
            preemption: LOWER,
            ..queue("default", None)
        });
        let mut sorted: Vec<_> = gangs.iter().enumerate().collect();
        sorted.sort_by_key(|(_, (_, since))| *since);
        let mut held = Vec::new();
        for (at, (gpus, since)) in sorted {
            engine.apply_gang(one_pod_gang(0, &format!("g{at}"), *gpus));
            let decisions = engine.cycle(seconds(*since));
            if decisions.iter().any(|d| matches!(d, Decision::Place { .. })) {
                held.push((*gpus, *since));
            } else {
                engine.delete_gang(&id(&format!("g{at}")));
            }
        }
        let free = 16 - held.iter().map(|(gpus, _)| gpus).sum::<i64>();
        prop_assume!(free < needs);
        let outlook = engine.try_gang(&one_pod_gang(1, "asker", needs), seconds(1_000));
        let least = least_loss(&held, free, needs, 1_000);
        let lost = outlook.ok().map(|outlook| {
            let gangs: BTreeSet<_> = outlook.victims.iter().map(|v| v.gang.clone()).collect();
            assert_eq!(gangs.len(), outlook.victims.len());
            outlook.victims.iter().map(|v| i64::try_from(v.lost_device_seconds).unwrap()).sum()
        });
        prop_assert_eq!(lost, least);
    }
}

/// A queue reclaims by its policy, independent of other victims that its gangs could take.
#[test]
fn reclaim_policy_never_takes_no_borrower_after_an_own_victim() {
    let mut engine = engine_with_teams([2, 2]);
    let own_only = PreemptionPolicy {
        reclaim: ReclaimPolicy::Never,
        ..BOTH
    };
    engine.apply_queue(queue_below("a", Some("all"), 2, own_only));
    engine.apply_gang(small_gang("a", -1, "own", 1));
    for name in ["b1", "b2", "b3"] {
        engine.apply_gang(small_gang("b", 0, name, 1));
    }
    assert_eq!(run_cycle_at(&mut engine, seconds(0)).len(), 4);
    engine.apply_gang(small_gang("a", 0, "in", 2));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(600)),
        ["-in QuotaExceeded"]
    );
}
