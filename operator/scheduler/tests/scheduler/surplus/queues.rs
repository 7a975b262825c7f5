//! Tests of surplus between queues: which gangs may take its room, and its other effects on them.

use std::collections::BTreeSet;

use crate::common::*;
use crate::preemption::{expect_preemption, priority_gang, run_cycle_at, seconds};
use crate::random::{any_gang, any_node};
use crate::surplus::{as_surplus, in_queue};
use proptest::prelude::*;
use trellis_scheduler::{
    BorrowWithinPolicy, Decision, Engine, Gang, GangId, PreemptionPolicy, PreemptionReason, Queue,
    QueueName, Quota, ReclaimPolicy, ResourceName, WithinQueuePolicy,
};

/// Returns an engine with two teams with these numbers of GPUs below one root.
fn engine_with_teams(policies: [PreemptionPolicy; 2], nominal: [i64; 2], nodes: usize) -> Engine {
    let mut engine = engine(gpu_nodes(nodes));
    engine.apply_queue(Queue::new(QueueName::new("all")));
    for ((name, preemption), nominal) in ["a", "b"].into_iter().zip(policies).zip(nominal) {
        let quota = |nominal| Quota {
            nominal,
            ..Quota::default()
        };
        let quotas = [
            (ResourceName::new(GPU), quota(nominal)),
            (ResourceName::new("cpu"), quota(1 << 40)),
        ];
        engine.apply_queue(Queue {
            parent: Some(QueueName::new("all")),
            preemption,
            ..Queue::new(QueueName::new(name)).with_quotas(quotas)
        });
    }
    engine
}

const NONE: PreemptionPolicy = PreemptionPolicy {
    within_queue: WithinQueuePolicy::Never,
    reclaim: ReclaimPolicy::Never,
    borrow_within: BorrowWithinPolicy::Never,
};

#[test]
fn queue_reclaims_owed_quota_from_surplus_and_no_more() {
    let mut engine = engine_with_teams([NONE, NONE], [8, 8], 2);
    engine.apply_gang(in_queue("b", as_surplus(priority_gang(9, "s1", 1))));
    engine.apply_gang(in_queue("b", as_surplus(priority_gang(9, "s2", 1))));
    engine.cycle(seconds(0));
    engine.apply_gang(in_queue("a", priority_gang(0, "own", 1)));
    let (_, victims) = expect_preemption(&mut engine, seconds(1));
    assert_eq!(
        (victims.len(), victims[0].reason),
        (1, PreemptionReason::Borrows),
        "whatever the queue's reclaim says"
    );
    // The second surplus is within the quota of its queue.
    engine.apply_gang(in_queue("a", priority_gang(0, "more", 1)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(2)),
        ["-more QuotaExceeded"]
    );
}

#[test]
fn borrower_preempts_surplus_by_its_queue_policy() {
    let borrow = PreemptionPolicy {
        borrow_within: BorrowWithinPolicy::LowerPriority { max_priority: None },
        ..NONE
    };
    for (policy, priority, expected) in [
        (NONE, 0, "-more QuotaExceeded"),
        (borrow, 5, "-more QuotaExceeded"),
        (borrow, 0, "!more s"),
    ] {
        let mut engine = engine_with_teams([policy, NONE], [8, 0], 2);
        engine.apply_queue(Queue {
            name: QueueName::new("all"),
            ..queue("all", Some(&[(GPU, 8), ("cpu", 1 << 40)]))
        });
        engine.apply_gang(in_queue("a", priority_gang(0, "own", 1)));
        engine.apply_gang(in_queue("b", as_surplus(priority_gang(priority, "s", 1))));
        assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+own", "+s"]);
        engine.apply_gang(in_queue("a", priority_gang(3, "more", 1)));
        assert_eq!(run_cycle_at(&mut engine, seconds(1)), [expected]);
    }
}

/// A queue that borrows only because of its surplus gives the surplus back. Its gangs are within
/// the queue's own quota.
#[test]
fn surplus_does_not_make_gangs_of_its_queue_victims() {
    let reclaim = PreemptionPolicy {
        reclaim: ReclaimPolicy::Any,
        ..NONE
    };
    let mut engine = engine_with_teams([reclaim, NONE], [8, 8], 3);
    let pinned = |gang: Gang, node: &str| {
        let other = ["n00", "n01", "n02"].into_iter().filter(|n| *n != node);
        Gang {
            excluded_nodes: other.map(trellis_scheduler::NodeName::new).collect(),
            ..gang
        }
    };
    engine.apply_gang(in_queue(
        "b",
        pinned(priority_gang(0, "guaranteed", 1), "n00"),
    ));
    engine.apply_gang(in_queue(
        "b",
        as_surplus(pinned(priority_gang(0, "s", 1), "n01")),
    ));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+guaranteed", "+s"]);
    // There is quota after the surplus is gone, but `guaranteed` holds the room.
    engine.apply_gang(in_queue("a", pinned(priority_gang(9, "asks", 1), "n00")));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1)),
        ["-asks QuotaExceeded"]
    );
    engine.delete_gang(&id("asks"));
    engine.apply_gang(in_queue("a", pinned(priority_gang(9, "asks", 1), "n02")));
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["!asks s"]);
}

/// A gang would borrow only because of surplus of its own queue, so other queues owe it the quota.
#[test]
fn gang_reclaims_owed_quota_although_its_queue_has_surplus() {
    let reclaim = PreemptionPolicy {
        reclaim: ReclaimPolicy::Any,
        ..NONE
    };
    let mut engine = engine_with_teams([reclaim, NONE], [16, 0], 2);
    let pinned = |gang: Gang, other: &str| Gang {
        excluded_nodes: vec![trellis_scheduler::NodeName::new(other)],
        ..gang
    };
    engine.apply_gang(in_queue(
        "a",
        as_surplus(pinned(priority_gang(0, "s", 1), "n01")),
    ));
    engine.apply_gang(in_queue("b", pinned(priority_gang(0, "borrows", 1), "n00")));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+borrows", "+s"]);
    engine.apply_gang(in_queue("a", pinned(priority_gang(0, "asks", 1), "n00")));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!asks borrows"]);
}

#[test]
fn preempted_borrower_preempts_only_surplus_of_its_own_queue() {
    let all = PreemptionPolicy {
        within_queue: WithinQueuePolicy::LowerOrNewerEqualPriority,
        reclaim: ReclaimPolicy::Any,
        borrow_within: BorrowWithinPolicy::LowerPriority { max_priority: None },
    };
    let mut engine = engine_with_teams([all, NONE], [8, 8], 2);
    engine.apply_gang(in_queue("a", priority_gang(0, "low", 1)));
    engine.apply_gang(in_queue("b", as_surplus(priority_gang(0, "theirs", 1))));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+low", "+theirs"]);
    let back = Gang {
        preempted: true,
        ..in_queue("a", priority_gang(5, "back", 1))
    };
    engine.apply_gang(back.clone());
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1)),
        ["-back QuotaExceeded"]
    );
    engine.delete_gang(&id("theirs"));
    engine.delete_gang(&id("back"));
    engine.apply_gang(in_queue("a", as_surplus(priority_gang(9, "ours", 1))));
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["+ours"]);
    engine.apply_gang(back);
    assert_eq!(run_cycle_at(&mut engine, seconds(3)), ["!back ours"]);
}

fn any_policy() -> impl Strategy<Value = PreemptionPolicy> {
    let within = prop_oneof![
        Just(WithinQueuePolicy::Never),
        Just(WithinQueuePolicy::LowerOrNewerEqualPriority)
    ];
    let reclaim = prop_oneof![Just(ReclaimPolicy::Never), Just(ReclaimPolicy::Any)];
    (within, reclaim).prop_map(|(within_queue, reclaim)| PreemptionPolicy {
        within_queue,
        reclaim,
        borrow_within: BorrowWithinPolicy::Never,
    })
}

proptest! {
    #![proptest_config(cases(400))]

    /// The decisions about gangs in a cycle are the same with and without pending surplus. After
    /// some surplus has started, it may be another queue's turn, because surplus counts as usage.
    #[test]
    fn pending_surplus_does_not_change_gang_decisions(
        nodes in prop::collection::vec(any_node(4), 1..5),
        gangs in prop::collection::vec(any_gang("w".into(), 4), 1..6),
        extra in prop::collection::vec(any_gang("s".into(), 4), 1..5),
        policy in any_policy(),
        quota in prop::option::of((0..12_i64, 0..8_i64)),
        early in 0..4_usize,
    ) {
        let build = |with: bool| {
            let mut engine = engine(nodes.clone());
            let quota = quota.map(|(cpu, gpu)| [("cpu", cpu), (GPU, gpu)]);
            for name in crate::random::QUEUES {
                engine.apply_queue(Queue {
                    preemption: policy,
                    ..queue(name, quota.as_ref().map(|q| &q[..]))
                });
            }
            let named = |(at, gang): (usize, &Gang), prefix: &str| Gang {
                id: id(&format!("{prefix}{at}")),
                groups: gang.groups.iter().cloned().map(|g| {
                    let pod_prefix = format!("{prefix}{at}-{}", g.name);
                    trellis_scheduler::TaskGroup { pod_prefix, ..g }
                }).collect(),
                ..gang.clone()
            };
            for one in gangs.iter().enumerate().take(early) {
                engine.apply_gang(named(one, "w"));
            }
            engine.cycle(ms(0));
            for one in gangs.iter().enumerate().skip(early) {
                engine.apply_gang(named(one, "w"));
            }
            if with {
                for one in extra.iter().enumerate() {
                    engine.apply_gang(as_surplus(named(one, "s")));
                }
            }
            engine
        };
        let told = |decisions: &[Decision]| -> Vec<String> {
            let starts = decisions.iter().filter(|d| match d {
                Decision::Place { gang, .. } | Decision::Preempt { gang, .. } =>
                    gang.as_str().starts_with("team/w"),
                _ => false,
            });
            starts.map(|d| format!("{d:?}")).collect()
        };
        let (mut with, mut without) = (build(true), build(false));
        let (more, fewer) = (with.cycle(ms(5)), without.cycle(ms(5)));
        let starts = |d: &Decision| matches!(d, Decision::Place { gang, .. } if gang.as_str().starts_with("team/s"));
        let first = more.iter().position(starts).unwrap_or(more.len());
        prop_assert_eq!(told(&more[..first]), told(&fewer));
        // The engine evicts no gang for surplus either.
        let evicted: BTreeSet<&GangId> = more.iter().flat_map(|d| match d {
            Decision::Preempt { victims, .. } => victims.iter().map(|v| &v.gang).collect(),
            _ => vec![],
        }).collect();
        prop_assert!(evicted.iter().all(|id| id.as_str().starts_with("team/w")));
        prop_assert!(with.cycle(ms(5)).is_empty(), "nothing is left to decide");
    }

    /// Gangs come and go while surplus always comes back. In the end there are no more decisions,
    /// and surplus has taken nothing from gangs.
    #[test]
    fn returning_surplus_reaches_a_stable_state(
        policies in prop::collection::vec(any_policy(), 2),
        nominal in (0..12_i64, 0..12_i64),
        gangs in prop::collection::vec((0..2_usize, 1..5_u32, 0..3_i32), 1..8),
        extra in prop::collection::vec((0..2_usize, 1..4_u32, 0..3_i32), 1..6),
    ) {
        let mut engine = engine_with_teams([policies[0], policies[1]], [nominal.0, nominal.1], 2);
        let of = |name: String, (team, pods, priority): &(usize, u32, i32)| Gang {
            priority: *priority,
            ..in_queue(["a", "b"][*team], workers(&name, *pods, gpu(1, 1)))
        };
        for (at, one) in extra.iter().enumerate() {
            engine.apply_gang(as_surplus(of(format!("s{at}"), one)));
        }
        let mut coming = gangs.iter().enumerate();
        let (mut quiet, mut second, mut given_up) = (0, 0, 0_usize);
        while quiet < 3 {
            second += 1;
            if let Some((at, one)) = coming.next() {
                engine.apply_gang(of(format!("w{at}"), one));
            }
            let decisions = engine.cycle(seconds(second));
            quiet = if decisions.is_empty() { quiet + 1 } else { 0 };
            for decision in &decisions {
                if let Decision::Preempt { gang, victims, .. } = decision {
                    prop_assert!(gang.as_str().starts_with("team/w"));
                    for victim in victims {
                        given_up += 1;
                        engine.release_gang(&victim.gang, None);
                    }
                }
            }
            prop_assert!(second < 1_000 && given_up <= 40 * gangs.len());
        }
        for node in ["n00", "n01"] {
            prop_assert!(free_amount(&engine, node, GPU) >= 0);
        }
    }
}
