//! Surplus: it starts after everyone, keeps nobody waiting, and makes room first.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::*;
use crate::preemption::{LOWER, at, by_priority, gone, of, preempts, seconds, see};
use crate::random::{any_gang, any_node};
use proptest::prelude::*;
use trellis_scheduler::{
    Because, BorrowWithin, Decision, Engine, Gang, GangId, NodeName, PodKey, Preemption, Queue,
    QueueName, QueueOrder, Quota, Reclaim, ResourceName, WaitReason, WithinQueue,
};

fn surplus(gang: Gang) -> Gang {
    Gang {
        surplus: true,
        ..gang
    }
}

fn in_queue(queue: &str, gang: Gang) -> Gang {
    Gang {
        queue: QueueName::new(queue),
        ..gang
    }
}

/// Nodes of 8 GPUs, and a default queue that preempts nobody.
fn plain(nodes: usize) -> Engine {
    engine(gpu_nodes(nodes))
}

#[test]
fn it_starts_after_all_gangs_of_all_queues_whatever_its_priority() {
    let mut engine = plain(2);
    engine.apply_queue(queue("other", None));
    engine.apply_gang(surplus(of(9, "s", 1)));
    engine.apply_gang(in_queue("other", of(0, "a", 1)));
    engine.apply_gang(of(-5, "b", 1));
    assert_eq!(
        at(&mut engine, seconds(0)),
        ["+b", "+a", "-s InsufficientCapacity"]
    );
    engine.delete_gang(&id("a"));
    assert_eq!(at(&mut engine, seconds(1)), ["+s"]);
}

#[test]
fn it_waits_at_the_end_of_a_strict_queue_and_blocks_nobody_there() {
    let mut engine = plain(1);
    engine.apply_queue(Queue {
        order: QueueOrder::StrictFifo,
        ..Queue::new(QueueName::new("default"))
    });
    engine.apply_gang(surplus(of(9, "huge", 2)));
    engine.apply_gang(surplus(workers("s", 1, gpu(1, 1))));
    assert_eq!(at(&mut engine, seconds(0)), ["+s", "-huge ExceedsCluster"]);
    // It passes the surplus that waits, and takes the place of the other.
    engine.apply_gang(workers("later", 1, gpu(1, 8)));
    assert_eq!(at(&mut engine, seconds(1)), ["!later s"]);
    engine.delete_gang(&id("s"));
    engine.cycle(seconds(2));
    // A head that waits keeps it out as it does others.
    engine.apply_gang(of(1, "head", 1));
    engine.delete_gang(&id("huge"));
    engine.apply_node(gpu_node("n01", 4));
    engine.apply_gang(surplus(workers("s", 1, gpu(1, 1))));
    engine.cycle(seconds(3));
    assert_eq!(reason(&engine, "s"), Some(WaitReason::BehindHead));
}

#[test]
fn it_is_given_up_first_for_any_gang_of_its_queue() {
    let mut engine = plain(2);
    let never = Gang {
        preemptible: false,
        min_runtime: Duration::from_secs(3600),
        ..surplus(of(9, "s", 1))
    };
    engine.apply_gang(of(-1, "low", 1));
    engine.apply_gang(never.clone());
    assert_eq!(at(&mut engine, seconds(0)), ["+low", "+s"]);
    see(&mut engine, &never);
    // The queue lets nobody preempt.
    engine.apply_gang(of(-9, "lowest", 1));
    let (_, victims) = preempts(&mut engine, seconds(1));
    assert_eq!(
        (&victims[0].gang, victims[0].because),
        (&id("s"), Because::Surplus)
    );
    engine.release_gang(&id("s"), None);
    assert_eq!(at(&mut engine, seconds(2)), ["-s InsufficientCapacity"]);
    gone(&mut engine, &never);
    assert_eq!(at(&mut engine, seconds(3)), ["+lowest"]);
}

#[test]
fn it_leaves_before_any_gang_and_no_more_of_it_than_must() {
    let mut engine = by_priority(4);
    for gang in [
        of(0, "low", 1),
        surplus(of(5, "s1", 1)),
        surplus(of(5, "s2", 1)),
        surplus(of(4, "s3", 1)),
    ] {
        engine.apply_gang(gang);
    }
    engine.cycle(seconds(0));
    engine.checkpointed(&id("s2"), seconds(9));
    engine.apply_gang(of(3, "two", 2));
    let (_, victims) = preempts(&mut engine, seconds(10));
    let names: Vec<&GangId> = victims.iter().map(|v| &v.gang).collect();
    assert_eq!(names, [&id("s2"), &id("s3")], "the cheapest of them");
    engine.apply_gang(of(3, "next", 2));
    let (_, victims) = preempts(&mut engine, seconds(10));
    let because: Vec<Because> = victims.iter().map(|v| v.because).collect();
    assert_eq!(because, [Because::LaterInQueue, Because::Surplus]);
}

#[test]
fn it_preempts_nobody_and_is_no_head() {
    let mut engine = by_priority(1);
    engine.apply_gang(Gang {
        runtime: Some(Duration::from_secs(60)),
        ..of(0, "low", 1)
    });
    engine.cycle(seconds(0));
    engine.apply_gang(surplus(of(9, "s", 1)));
    let decisions = engine.cycle(seconds(1));
    assert_eq!(said(&decisions), ["-s InsufficientCapacity"]);
    assert_eq!(decisions.len(), 1, "nothing is reserved: {decisions:?}");
    assert!(engine.reservation(&id("s")).is_none());
    let forecast = trellis_scheduler::Forecast::of(&engine.snapshot(), |n| n < 100);
    assert!(forecast.starts.is_empty());
}

#[test]
fn it_leaves_alone_what_is_kept_for_a_head() {
    let mut engine = plain(2);
    engine.apply_gang(Gang {
        runtime: Some(Duration::from_secs(60)),
        ..of(0, "runs", 1)
    });
    engine.cycle(seconds(0));
    engine.apply_gang(of(0, "head", 2));
    engine.cycle(seconds(1));
    // It would end before the head starts, if it did what it says.
    let says = Gang {
        runtime: Some(Duration::from_secs(1)),
        ..surplus(of(0, "s", 1))
    };
    engine.apply_gang(says);
    assert_eq!(at(&mut engine, seconds(2)), ["-s Reserved"]);
    // Nor is a place taken of which nobody knows when it is free.
    engine.apply_gang(of(0, "runs", 1));
    engine.apply_gang(surplus(of(0, "s2", 1)));
    assert_eq!(at(&mut engine, seconds(3)), ["-s2 Reserved"]);
    engine.delete_gang(&id("head"));
    assert_eq!(
        at(&mut engine, seconds(4)),
        ["+s", "-s2 InsufficientCapacity"]
    );
}

/// Two teams with so many GPUs each below one root.
fn teams(policies: [Preemption; 2], nominal: [i64; 2], nodes: usize) -> Engine {
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

const NONE: Preemption = Preemption {
    within_queue: WithinQueue::Never,
    reclaim: Reclaim::Never,
    borrow_within: BorrowWithin::Never,
};

#[test]
fn another_queue_gets_back_what_it_is_owed_and_no_more() {
    let mut engine = teams([NONE, NONE], [8, 8], 2);
    engine.apply_gang(in_queue("b", surplus(of(9, "s1", 1))));
    engine.apply_gang(in_queue("b", surplus(of(9, "s2", 1))));
    engine.cycle(seconds(0));
    engine.apply_gang(in_queue("a", of(0, "own", 1)));
    let (_, victims) = preempts(&mut engine, seconds(1));
    assert_eq!(
        (victims.len(), victims[0].because),
        (1, Because::Borrows),
        "whatever the queue's reclaim says"
    );
    // The other is within the quota of its queue.
    engine.apply_gang(in_queue("a", of(0, "more", 1)));
    assert_eq!(at(&mut engine, seconds(2)), ["-more QuotaExceeded"]);
}

#[test]
fn who_would_borrow_asks_for_surplus_as_its_queue_says() {
    let borrow = Preemption {
        borrow_within: BorrowWithin::LowerPriority { max_priority: None },
        ..NONE
    };
    for (policy, priority, expected) in [
        (NONE, 0, "-more QuotaExceeded"),
        (borrow, 5, "-more QuotaExceeded"),
        (borrow, 0, "!more s"),
    ] {
        let mut engine = teams([policy, NONE], [8, 0], 2);
        engine.apply_queue(Queue {
            name: QueueName::new("all"),
            ..queue("all", Some(&[(GPU, 8), ("cpu", 1 << 40)]))
        });
        engine.apply_gang(in_queue("a", of(0, "own", 1)));
        engine.apply_gang(in_queue("b", surplus(of(priority, "s", 1))));
        assert_eq!(at(&mut engine, seconds(0)), ["+own", "+s"]);
        engine.apply_gang(in_queue("a", of(3, "more", 1)));
        assert_eq!(at(&mut engine, seconds(1)), [expected]);
    }
}

/// By surplus a queue borrows, and gives that back; its gangs are within its own.
#[test]
fn surplus_makes_no_gang_of_its_queue_a_victim() {
    let reclaim = Preemption {
        reclaim: Reclaim::Any,
        ..NONE
    };
    let mut engine = teams([reclaim, NONE], [8, 8], 3);
    let pinned = |gang: Gang, node: &str| {
        let other = ["n00", "n01", "n02"].into_iter().filter(|n| *n != node);
        Gang {
            excluded_nodes: other.map(trellis_scheduler::NodeName::new).collect(),
            ..gang
        }
    };
    engine.apply_gang(in_queue("b", pinned(of(0, "guaranteed", 1), "n00")));
    engine.apply_gang(in_queue("b", surplus(pinned(of(0, "s", 1), "n01"))));
    assert_eq!(at(&mut engine, seconds(0)), ["+guaranteed", "+s"]);
    // There is quota once the surplus is gone; the room would be the other's.
    engine.apply_gang(in_queue("a", pinned(of(9, "asks", 1), "n00")));
    assert_eq!(at(&mut engine, seconds(1)), ["-asks QuotaExceeded"]);
    engine.delete_gang(&id("asks"));
    engine.apply_gang(in_queue("a", pinned(of(9, "asks", 1), "n02")));
    assert_eq!(at(&mut engine, seconds(2)), ["!asks s"]);
}

/// What would be borrowed with surplus of its own is owed without it.
#[test]
fn a_gang_is_owed_what_is_its_own_though_surplus_holds_it() {
    let reclaim = Preemption {
        reclaim: Reclaim::Any,
        ..NONE
    };
    let mut engine = teams([reclaim, NONE], [16, 0], 2);
    let pinned = |gang: Gang, other: &str| Gang {
        excluded_nodes: vec![trellis_scheduler::NodeName::new(other)],
        ..gang
    };
    engine.apply_gang(in_queue("a", surplus(pinned(of(0, "s", 1), "n01"))));
    engine.apply_gang(in_queue("b", pinned(of(0, "borrows", 1), "n00")));
    assert_eq!(at(&mut engine, seconds(0)), ["+borrows", "+s"]);
    engine.apply_gang(in_queue("a", pinned(of(0, "asks", 1), "n00")));
    assert_eq!(at(&mut engine, seconds(1)), ["!asks borrows"]);
}

#[test]
fn who_was_preempted_and_borrows_takes_surplus_of_its_own_queue_only() {
    let all = Preemption {
        within_queue: WithinQueue::LowerOrNewerEqualPriority,
        reclaim: Reclaim::Any,
        borrow_within: BorrowWithin::LowerPriority { max_priority: None },
    };
    let mut engine = teams([all, NONE], [8, 8], 2);
    engine.apply_gang(in_queue("a", of(0, "low", 1)));
    engine.apply_gang(in_queue("b", surplus(of(0, "theirs", 1))));
    assert_eq!(at(&mut engine, seconds(0)), ["+low", "+theirs"]);
    let back = Gang {
        preempted: true,
        ..in_queue("a", of(5, "back", 1))
    };
    engine.apply_gang(back.clone());
    assert_eq!(at(&mut engine, seconds(1)), ["-back QuotaExceeded"]);
    engine.delete_gang(&id("theirs"));
    engine.delete_gang(&id("back"));
    engine.apply_gang(in_queue("a", surplus(of(9, "ours", 1))));
    assert_eq!(at(&mut engine, seconds(2)), ["+ours"]);
    engine.apply_gang(back);
    assert_eq!(at(&mut engine, seconds(3)), ["!back ours"]);
}

#[test]
fn it_is_not_counted_as_a_gang_and_its_usage_is() {
    let mut engine = plain(1);
    engine.apply_gang(surplus(workers("s", 1, gpu(1, 1))));
    engine.apply_gang(surplus(of(0, "waits", 2)));
    engine.cycle(seconds(0));
    assert!(engine.queue_counts().is_empty());
    let usage = engine.queue_usage(&QueueName::new("default"));
    assert_eq!(usage[&ResourceName::new(GPU)], 1);
    engine.apply_gang(workers("w", 1, gpu(1, 1)));
    engine.apply_gang(of(0, "w2", 2));
    engine.cycle(seconds(1));
    let counts = engine.queue_counts()[&QueueName::new("default")];
    assert_eq!((counts.pending, counts.admitted), (1, 1));
}

/// A head that waits for one that ends and for surplus knows when it starts.
#[test]
fn what_surplus_holds_makes_no_start_unknown() {
    let mut engine = by_priority(2);
    engine.apply_gang(Gang {
        runtime: Some(Duration::from_secs(60)),
        ..of(9, "runs", 1)
    });
    engine.apply_gang(surplus(of(0, "s", 1)));
    engine.cycle(seconds(0));
    engine.apply_gang(of(0, "head", 2));
    engine.cycle(seconds(1));
    let kept = engine.reservation(&id("head")).unwrap();
    assert_eq!(kept.start, Some(seconds(60)));
    engine.delete_gang(&id("runs"));
    assert_eq!(at(&mut engine, seconds(2)), ["!head s"]);
}

#[test]
fn a_gang_is_read_that_does_not_say_whether_it_is_surplus() {
    let gang = of(0, "w", 1);
    let text = serde_json::to_value(&gang).unwrap();
    assert!(text.get("surplus").is_none());
    assert_eq!(serde_json::from_value::<Gang>(text).unwrap(), gang);
    let text = serde_json::to_value(surplus(gang)).unwrap();
    assert!(serde_json::from_value::<Gang>(text).unwrap().surplus);
}

fn policies() -> impl Strategy<Value = Preemption> {
    let within = prop_oneof![
        Just(WithinQueue::Never),
        Just(WithinQueue::LowerOrNewerEqualPriority)
    ];
    let reclaim = prop_oneof![Just(Reclaim::Never), Just(Reclaim::Any)];
    (within, reclaim).prop_map(|(within_queue, reclaim)| Preemption {
        within_queue,
        reclaim,
        borrow_within: BorrowWithin::Never,
    })
}

proptest! {
    #![proptest_config(cases(400))]

    /// What gangs do in a cycle, they do whether or not surplus waits. Once some of it
    /// has started, it may be another queue's turn, since its usage counts.
    #[test]
    fn surplus_that_waits_changes_nothing_for_gangs(
        nodes in prop::collection::vec(any_node(4), 1..5),
        gangs in prop::collection::vec(any_gang("w".into(), 4), 1..6),
        extra in prop::collection::vec(any_gang("s".into(), 4), 1..5),
        policy in policies(),
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
                    engine.apply_gang(surplus(named(one, "s")));
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
        // And nobody is evicted for it.
        let evicted: BTreeSet<&GangId> = more.iter().flat_map(|d| match d {
            Decision::Preempt { victims, .. } => victims.iter().map(|v| &v.gang).collect(),
            _ => vec![],
        }).collect();
        prop_assert!(evicted.iter().all(|id| id.as_str().starts_with("team/w")));
        prop_assert!(with.cycle(ms(5)).is_empty(), "nothing is left to decide");
    }

    /// Gangs that come and go beside surplus that always comes back: all is quiet in
    /// the end, and surplus has taken nothing.
    #[test]
    fn surplus_that_comes_back_takes_nothing_back(
        policies in prop::collection::vec(policies(), 2),
        nominal in (0..12_i64, 0..12_i64),
        gangs in prop::collection::vec((0..2_usize, 1..5_u32, 0..3_i32), 1..8),
        extra in prop::collection::vec((0..2_usize, 1..4_u32, 0..3_i32), 1..6),
    ) {
        let mut engine = teams([policies[0], policies[1]], [nominal.0, nominal.1], 2);
        let of = |name: String, (team, pods, priority): &(usize, u32, i32)| Gang {
            priority: *priority,
            ..in_queue(["a", "b"][*team], workers(&name, *pods, gpu(1, 1)))
        };
        for (at, one) in extra.iter().enumerate() {
            engine.apply_gang(surplus(of(format!("s{at}"), one)));
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
            prop_assert!(free(&engine, node, GPU) >= 0);
        }
    }
}

#[test]
fn a_queue_that_is_drained_lets_go_of_surplus_too() {
    let mut engine = plain(1);
    engine.apply_gang(surplus(of(0, "s", 1)));
    engine.cycle(seconds(0));
    engine.apply_queue(Queue {
        stop: trellis_scheduler::Stop::HoldAndDrain,
        preemption: LOWER,
        ..Queue::new(QueueName::new("default"))
    });
    assert_eq!(at(&mut engine, seconds(1)), ["~s"]);
}

/// As an operator feeds it: a pod beyond a gang makes room, goes, and is sought again.
#[test]
fn what_made_room_is_not_placed_on_what_it_made() {
    for lost_first in [false, true] {
        let mut engine = engine(gpu_nodes(1));
        let pod = |number: u32| {
            let mut pod = workers(&format!("j/{number}"), 1, gpu(1, 1));
            pod.surplus = true;
            pod.groups[0].pod_prefix = "j-worker".to_owned();
            pod.groups[0].first = number;
            pod
        };
        let mut gang = workers("j", 2, gpu(1, 1));
        gang.groups[0].pod_prefix = "j-worker".to_owned();
        engine.apply_gang(gang);
        cycle(&mut engine);
        engine.apply_gang(pod(2));
        engine.apply_gang(pod(3));
        assert_eq!(cycle(&mut engine), ["+j/2", "+j/3"]);
        for number in 0..4 {
            let key = PodKey::new(format!("team/j-worker-{number}"));
            engine.apply_pod(key, NodeName::new("n00"), gpu(1, 1));
        }
        assert_eq!(free(&engine, "n00", GPU), 4);
        engine.apply_gang(workers("whole", 1, gpu(5, 5)));
        let decided = cycle(&mut engine);
        let victim = (2..4)
            .find(|n| decided[0].contains(&format!("j/{n}")))
            .unwrap();
        let key = PodKey::new(format!("team/j-worker-{victim}"));
        if lost_first {
            engine.lose_pod(&key);
            engine.delete_gang(&pod(victim).id);
        } else {
            engine.delete_gang(&pod(victim).id);
            engine.lose_pod(&key);
        }
        let decided = cycle(&mut engine);
        assert_eq!(decided, ["+whole"], "{lost_first}");
        assert_eq!(free(&engine, "n00", GPU), 0);
        engine.apply_pod(worker("whole", 0), NodeName::new("n00"), gpu(5, 5));
        assert_eq!(free(&engine, "n00", GPU), 0);
        engine.apply_gang(pod(victim));
        let waits = format!("-j/{victim} InsufficientCapacity");
        assert_eq!(cycle(&mut engine), [waits], "{lost_first}");
    }
}
