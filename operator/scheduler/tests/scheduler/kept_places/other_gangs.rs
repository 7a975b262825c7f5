//! Tests of kept places among other gangs.

use crate::common::*;
use crate::kept_places::{engine_with_running_gang, node_names, placement_text};
use crate::preemption::{
    LOWER, apply_pods_of, delete_pods_of, engine_with_priority_preemption, expect_preemption,
    priority_gang, run_cycle_at, seconds,
};
use proptest::prelude::*;
use trellis_scheduler::{
    Decision, Gang, GangId, LimitDraw, LimitName, LimitUnit, NodeName, Queue, QueueName,
    ResourceName, WaitReason,
};

#[test]
fn quota_and_limits_of_a_kept_place_stay_charged() {
    let mut engine = engine(gpu_nodes(4));
    let q = QueueName::new("q");
    engine.apply_queue(queue("q", Some(&[(GPU, 16), ("cpu", 1 << 40)])));
    let draws = vec![LimitDraw {
        limit: LimitName::new("jobs"),
        of: LimitUnit::Gangs,
        max: Some(1),
        refuses: false,
    }];
    let in_q = |name: &str, draws: &[LimitDraw]| Gang {
        queue: q.clone(),
        draws: draws.to_vec(),
        ..priority_gang(0, name, 2)
    };
    let gang = in_q("w", &draws);
    engine.apply_gang(gang.clone());
    engine.cycle(seconds(0));
    engine.keep_place(&id("w"), &[], seconds(120));
    assert_eq!(engine.queue_usage(&q)[&ResourceName::new(GPU)], 16);
    engine.apply_gang(in_q("other", &[]));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1)),
        ["-other QuotaExceeded"]
    );
    let mut elsewhere = priority_gang(0, "elsewhere", 1);
    elsewhere.draws = draws;
    engine.apply_gang(elsewhere);
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1)),
        ["-elsewhere QuotaPolicyExceeded"]
    );
    let counts = engine.queue_counts()[&q];
    assert_eq!((counts.pending, counts.admitted), (1, 0), "it has no place");
    engine.apply_gang(Gang {
        priority: 5,
        ..gang
    });
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["+w"]);
    assert_eq!(engine.queue_usage(&q)[&ResourceName::new(GPU)], 16);
    assert_eq!(engine.limit_usage().map(|(_, n)| n).sum::<i128>(), 1);
}

#[test]
fn terminating_pods_of_a_kept_place_free_no_room() {
    let mut engine = engine_with_priority_preemption(2);
    let (kept, low) = (priority_gang(0, "kept", 1), priority_gang(1, "low", 1));
    engine.apply_gang(kept.clone());
    engine.apply_gang(low);
    engine.cycle(seconds(0));
    apply_pods_of(&mut engine, &kept);
    engine.keep_place(&id("kept"), &[], seconds(120));
    engine.apply_gang(priority_gang(9, "high", 1));
    // Pods that terminate in a kept place make room for no other gang.
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!high low"]);
    engine.apply_gang(priority_gang(9, "next", 1));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(2)),
        ["-next InsufficientCapacity"]
    );
    delete_pods_of(&mut engine, &kept);
    assert!(engine.cycle(seconds(3)).is_empty());
    engine.apply_gang(kept);
    // Back in its place, the gang may be a victim like any other gang.
    assert_eq!(
        run_cycle_at(&mut engine, seconds(4)),
        ["+kept", "!next kept"]
    );
}

/// A head with an unknown start lets no gang use its place, except a gang that returns to its own
/// place.
#[test]
fn restarting_gang_returns_despite_a_head_with_unknown_start() {
    let (mut engine, gang) = engine_with_running_gang(3, 1);
    engine.apply_gang(priority_gang(0, "endless", 1));
    run_cycle_at(&mut engine, seconds(0));
    engine.apply_gang(Gang {
        submitted: seconds(-9_000),
        ..priority_gang(9, "head", 3)
    });
    run_cycle_at(&mut engine, seconds(1));
    engine.keep_place(&id("w"), &[], seconds(120));
    delete_pods_of(&mut engine, &gang);
    assert!(
        run_cycle_at(&mut engine, seconds(2)).is_empty(),
        "the head does not get it"
    );
    engine.apply_gang(gang);
    engine.apply_gang(priority_gang(0, "later", 1));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(3)),
        ["+w", "-later Reserved"]
    );
    assert_eq!(placement_text(&engine, "w"), "worker: n00*1");
}

#[test]
fn restarting_gang_preempts_only_for_its_lost_ranks() {
    let mut engine = engine_with_priority_preemption(3);
    let gang = priority_gang(5, "w", 2);
    engine.apply_gang(gang.clone());
    engine.apply_gang(priority_gang(0, "low", 1));
    run_cycle_at(&mut engine, seconds(0));
    apply_pods_of(&mut engine, &gang);
    engine.keep_place(&id("w"), &node_names(&["n00"]), seconds(120));
    engine.delete_node(&NodeName::new("n00"));
    delete_pods_of(&mut engine, &gang);
    engine.apply_gang(Gang {
        excluded_nodes: node_names(&["n00"]),
        ..gang
    });
    let (place, victims) = expect_preemption(&mut engine, seconds(1));
    assert_eq!(victims.len(), 1);
    assert_eq!(format_placement(&place), "worker: n02*1 n01*1");
    engine.release_gang(&id("low"), None);
    assert_eq!(
        run_cycle_at(&mut engine, seconds(2)),
        ["+w", "-low InsufficientCapacity"]
    );
    assert_eq!(engine.next_wakeup(), None);
}

#[test]
fn restarting_gang_waits_for_the_head_of_a_strict_queue() {
    let (mut engine, gang) = engine_with_running_gang(2, 1);
    engine.apply_queue(Queue {
        order: trellis_scheduler::QueueOrder::StrictFifo,
        preemption: LOWER,
        ..Queue::new(QueueName::new("default"))
    });
    engine.keep_place(&id("w"), &[], seconds(120));
    engine.apply_gang(priority_gang(9, "head", 3));
    delete_pods_of(&mut engine, &gang);
    engine.apply_gang(gang);
    run_cycle_at(&mut engine, seconds(1));
    assert_eq!(wait_reason(&engine, "w"), Some(WaitReason::BehindHead));
    engine.delete_gang(&id("head"));
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["+w"]);
}

proptest! {
    #![proptest_config(cases(300))]

    /// A gang restarts while new gangs come. The engine places no other gang in its room before the
    /// time is over, and the gang returns there if it is applied.
    #[test]
    fn no_gang_is_placed_on_a_kept_place(
        pods in 1..4_u32,
        lost in prop::option::of(0..4_usize),
        others in prop::collection::vec((1..4_u32, 1..9_i64, 0..9_i32), 1..6),
        policy in prop::bool::ANY,
        back in 1..9_i64,
    ) {
        let mut engine = engine(gpu_nodes(4));
        if policy {
            engine.apply_queue(Queue { preemption: LOWER, ..Queue::new(QueueName::new("default")) });
        }
        let gang = priority_gang(3, "w", pods);
        engine.apply_gang(gang.clone());
        engine.cycle(seconds(0));
        apply_pods_of(&mut engine, &gang);
        let before = engine.placement(&id("w")).unwrap();
        let lost: Vec<NodeName> = lost.map(|at| NodeName::new(format!("n{at:02}"))).into_iter().collect();
        engine.keep_place(&id("w"), &lost, seconds(20));
        delete_pods_of(&mut engine, &gang);
        let kept: Vec<NodeName> = before.iter().map(|(_, _, node)| node.clone()).filter(|n| !lost.contains(n)).collect();
        let mut is_back = false;
        for (at, (pods, gpus, priority)) in (0_i64..).zip(&others) {
            engine.apply_gang(Gang { priority: *priority, ..workers(&format!("o{at}"), *pods, gpu(1, *gpus)) });
            if at + 1 == back {
                engine.apply_gang(Gang { excluded_nodes: lost.clone(), ..gang.clone() });
            }
            for decision in engine.cycle(seconds(at + 1)) {
                if let Decision::Preempt { victims, .. } = &decision {
                    victims.iter().for_each(|victim| engine.release_gang(&victim.gang, None));
                }
                match decision {
                    Decision::Place { gang, placement, .. } | Decision::Preempt { gang, placement, .. } => {
                        let own = gang == id("w");
                        for (_, index, node) in placement.iter() {
                            prop_assert!(is_back || own || !kept.contains(node), "{} on {}", gang, node);
                            let had = before.iter().find(|(_, i, _)| *i == index).map(|(.., n)| n);
                            let moved = own && had.is_some_and(|had| !lost.contains(had) && had != node);
                            prop_assert!(!moved || is_back, "rank {} moved to {}", index, node);
                        }
                        is_back |= own;
                    }
                    _ => {}
                }
            }
            let overbooked = (0..4).any(|node| free_amount(&engine, &format!("n{node:02}"), GPU) < 0);
            prop_assert!(!overbooked);
        }
        if !is_back {
            engine.cycle(seconds(20));
            engine.delete_gang(&id("w"));
        }
        for at in 0..others.len() {
            engine.delete_gang(&GangId::new(format!("team/o{at}")));
        }
        engine.delete_gang(&id("w"));
        let whole = (0..4).all(|node| free_amount(&engine, &format!("n{node:02}"), GPU) == 8);
        prop_assert!(whole);
    }
}

/// A gang before it in the queue waits for more quota. The restarting gang takes no more quota than
/// it had.
#[test]
fn restarting_gang_gets_its_quota_before_a_waiting_gang() {
    let mut engine = engine(gpu_nodes(3));
    engine.apply_queue(queue("q", Some(&[(GPU, 16), ("cpu", 1 << 40)])));
    let in_q = |gang: Gang| Gang {
        queue: QueueName::new("q"),
        submitted: seconds(-9_000),
        ..gang
    };
    let gang = in_q(priority_gang(0, "w", 1));
    for gang in [
        &gang,
        &in_q(priority_gang(0, "stays", 1)),
        &in_q(priority_gang(9, "head", 2)),
    ] {
        engine.apply_gang(gang.clone());
        engine.cycle(seconds(0));
    }
    engine.keep_place(&id("w"), &[], seconds(120));
    engine.apply_gang(Gang {
        excluded_nodes: vec![NodeName::new("elsewhere")],
        ..gang
    });
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["+w"]);
}
