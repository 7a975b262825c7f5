//! Tests of fair share: a queue that borrows less than its share takes from queues that borrow more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::common::*;
use crate::preemption::queues::{queue_below, small_gang};
use crate::preemption::{LOWER, run_cycle_at, seconds};
use proptest::prelude::*;
use trellis_scheduler::{
    BorrowWithinPolicy, Decision, Engine, FairShareVictims, Gang, PreemptionPolicy,
    PreemptionReason, Queue, QueueName, ReclaimPolicy, UsageDecay, Weight, WithinQueuePolicy,
};

const fn fair(victims: FairShareVictims) -> PreemptionPolicy {
    PreemptionPolicy {
        within_queue: WithinQueuePolicy::Never,
        reclaim: ReclaimPolicy::Never,
        borrow_within: BorrowWithinPolicy::FairShare(victims),
    }
}

pub const FAIR: PreemptionPolicy = fair(FairShareVictims::Any);

const LOWER_WITHIN: PreemptionPolicy = PreemptionPolicy {
    reclaim: ReclaimPolicy::Any,
    borrow_within: BorrowWithinPolicy::LowerPriority { max_priority: None },
    ..FAIR
};

/// Returns an engine with 16 GPUs that these queues borrow from `all`, by weight in thousandths.
fn engine_with_borrowers(queues: &[(&str, u32)], policy: PreemptionPolicy) -> Engine {
    let mut engine = Engine::with_decay(UsageDecay::with_half_life(0));
    for node in gpu_nodes(2).into_iter().take(2) {
        engine.apply_node(node);
    }
    engine.apply_queue(queue_below("all", None, 16, PreemptionPolicy::default()));
    for (name, weight) in queues {
        engine.apply_queue(Queue {
            weight: Weight::from_thousandths(*weight),
            ..queue_below(name, Some("all"), 0, policy)
        });
    }
    engine
}

/// Applies gangs of single-GPU pods, and runs a cycle at this second.
fn run(engine: &mut Engine, second: i64, gangs: &[(&str, &str, u32)]) -> Vec<String> {
    for (queue, name, pods) in gangs {
        engine.apply_gang(small_gang(queue, 0, name, *pods));
    }
    run_cycle_at(engine, seconds(second))
}

/// Starts four gangs of queue `a`, which use all 16 GPUs.
fn fill_with_gangs_of_a(engine: &mut Engine) {
    let gangs = ["a1", "a2", "a3", "a4"].map(|name| ("a", name, 4));
    assert_eq!(run(engine, 0, &gangs).len(), 4);
}

#[test]
fn queue_takes_until_the_shares_are_equal() {
    let mut engine = engine_with_borrowers(&[("a", 1_000), ("b", 1_000)], FAIR);
    fill_with_gangs_of_a(&mut engine);
    for (second, name) in [(1, "b1"), (2, "b2")] {
        let said = run(&mut engine, second, &[("b", name, 4)]);
        assert!(
            said.iter().any(|s| s.starts_with(&format!("!{name} a"))),
            "{said:?}"
        );
        let victim = said
            .iter()
            .find_map(|s| s.strip_prefix(&format!("!{name} ")))
            .unwrap();
        engine.release_gang(&id(victim), None);
        engine.delete_gang(&id(victim));
        assert_eq!(run(&mut engine, second, &[]), [format!("+{name}")]);
    }
    // Both queues hold 8 of 16.
    assert_eq!(
        run(&mut engine, 3, &[("b", "b3", 4)]),
        ["-b3 QuotaExceeded"]
    );
    assert_eq!(
        run(&mut engine, 4, &[("a", "a5", 1)]),
        ["-a5 QuotaExceeded"]
    );
}

#[test]
fn weight_decides_how_much_a_queue_may_take() {
    let mut engine = engine_with_borrowers(&[("a", 1_000), ("b", 3_000)], FAIR);
    run(&mut engine, 0, &[("a", "a1", 8), ("a", "a2", 8)]);
    let said = run(&mut engine, 1, &[("b", "b1", 8)]);
    assert!(said[0].starts_with("!b1 a"), "{said:?}");
    // With 8 of each, `b` has a third of the share of `a`, and may hold 16.
    let victim = said[0].strip_prefix("!b1 ").unwrap().to_owned();
    engine.release_gang(&id(&victim), None);
    engine.delete_gang(&id(&victim));
    assert_eq!(run(&mut engine, 2, &[]), ["+b1"]);
    let said = run(&mut engine, 3, &[("b", "b2", 8)]);
    assert!(said[0].starts_with("!b2 a"), "{said:?}");
}

#[test]
fn queue_with_the_largest_share_loses_first() {
    let mut engine = engine_with_borrowers(&[("a", 1_000), ("b", 1_000), ("c", 1_000)], FAIR);
    // The gang of `a` is younger and has lost less work, but `b` borrows more.
    run(&mut engine, 0, &[("b", "b1", 5), ("b", "b2", 5)]);
    run(&mut engine, 100, &[("a", "a1", 6)]);
    let said = run(&mut engine, 101, &[("c", "c1", 2)]);
    assert!(said[0].starts_with("!c1 b"), "{said:?}");
}

/// Department `x` borrows 9 in two queues, and `y` borrows 7 in one. After two departures both borrow
/// 7, and each loses one more gang.
#[test]
fn queues_of_a_department_lose_gangs_by_its_share() {
    let mut engine = engine_with_borrowers(&[("x", 1_000), ("y", 1_000), ("z", 1_000)], FAIR);
    for (name, parent) in [("x1", "x"), ("x2", "x"), ("y1", "y"), ("z1", "z")] {
        engine.apply_queue(queue_below(name, Some(parent), 0, FAIR));
    }
    let held = [("x1", 5), ("x2", 4), ("y1", 7)];
    for (queue, count) in held {
        for number in 0..count {
            engine.apply_gang(small_gang(queue, 0, &format!("{queue}-{number}"), 1));
        }
    }
    assert_eq!(run_cycle_at(&mut engine, seconds(0)).len(), 16);
    let said = run(&mut engine, 1, &[("z1", "new", 4)]);
    let victims = said[0].strip_prefix("!new ").unwrap().split(' ');
    let (of_x, of_y): (Vec<&str>, Vec<&str>) = victims.partition(|name| name.starts_with('x'));
    assert_eq!((of_x.len(), of_y.len()), (3, 1), "{said:?}");
}

/// Within a department, the queue that borrows more loses first, whatever the order of the queues.
#[test]
fn smaller_queue_of_a_department_is_spared() {
    for (small, large) in [("x1", "x2"), ("x2", "x1")] {
        let mut engine = engine_with_borrowers(&[("x", 1_000), ("y", 1_000)], FAIR);
        for (name, parent) in [("x1", "x"), ("x2", "x"), ("y1", "y")] {
            engine.apply_queue(queue_below(name, Some(parent), 0, FAIR));
        }
        // The only gang of the small queue is the younger one: it loses less work.
        run(
            &mut engine,
            0,
            &[(large, "l1", 4), (large, "l2", 4), (large, "l3", 4)],
        );
        run(&mut engine, 100, &[(small, "s1", 4)]);
        let said = run(&mut engine, 200, &[("y1", "new", 4)]);
        assert!(said[0].starts_with("!new l"), "{said:?}");
    }
}

/// Queue `a` has a quota of 8 GPUs and uses 16. Its next gang requests 4.
#[test]
fn waiting_gang_of_a_queue_beyond_its_quota_stops_no_other_queue() {
    for policy in [FAIR, LOWER_WITHIN] {
        let mut engine = engine_with_borrowers(&[("b", 1_000)], policy);
        engine.apply_queue(queue_below(
            "a",
            Some("all"),
            8,
            PreemptionPolicy::default(),
        ));
        engine.apply_queue(queue_below("all", None, 8, PreemptionPolicy::default()));
        fill_with_gangs_of_a(&mut engine);
        assert_eq!(
            run(&mut engine, 1, &[("a", "a5", 4)]),
            ["-a5 QuotaExceeded"]
        );
        engine.apply_gang(small_gang("b", 1, "b1", 4));
        let said = run_cycle_at(&mut engine, seconds(2));
        assert!(said[0].starts_with("!b1 a"), "{said:?}");
    }
}

/// Quota of CPUs that the greedy queue leaves idle reserves none of the GPUs that it holds.
#[test]
fn idle_quota_of_another_resource_reserves_nothing() {
    let mut engine = engine_with_borrowers(&[], FAIR);
    let quota = |gpus, cpus| Some([(GPU, gpus), ("cpu", cpus)]);
    for (name, parent, quota) in [
        ("all", None, quota(8, 64_000)),
        ("a", Some("all"), quota(8, 64_000)),
        ("b", Some("all"), quota(0, 0)),
    ] {
        engine.apply_queue(Queue {
            parent: parent.map(QueueName::new),
            preemption: FAIR,
            ..queue(name, quota.as_ref().map(|quota| &quota[..]))
        });
    }
    fill_with_gangs_of_a(&mut engine);
    assert_eq!(
        run(&mut engine, 1, &[("a", "a5", 4)]),
        ["-a5 QuotaExceeded"]
    );
    let said = run(&mut engine, 2, &[("b", "b1", 4)]);
    assert!(said[0].starts_with("!b1 a"), "{said:?}");
}

/// Departments `x` and `y` each hold 8 of 16, so neither takes from the other.
#[test]
fn explanation_compares_the_queues_with_one_parent() {
    let mut engine = engine_with_borrowers(&[("x", 1_000), ("y", 1_000)], FAIR);
    for (name, parent) in [("x1", "x"), ("x2", "x"), ("y1", "y")] {
        engine.apply_queue(Queue {
            preemption: FAIR,
            parent: Some(QueueName::new(parent)),
            ..queue(name, None)
        });
    }
    run(
        &mut engine,
        0,
        &[("x1", "x1", 4), ("x2", "x2", 4), ("y1", "y1", 8)],
    );
    run(&mut engine, 1, &[("x1", "next", 1)]);
    let says = engine.explanation(&id("next")).unwrap().to_string();
    let end = "; queue \"x\" would have a borrowed share of 0.562, and queue \"y\" has 0.500";
    assert!(says.ends_with(end), "{says}");
}

#[test]
fn priorities_limit_the_victims() {
    use FairShareVictims::{Any, LowerOrEqualPriority, LowerPriority};
    for (victims, priority, may) in [
        (LowerPriority, -1, true),
        (LowerPriority, 0, false),
        (LowerOrEqualPriority, 0, true),
        (LowerOrEqualPriority, 1, false),
        (Any, 9, true),
    ] {
        let mut engine = engine_with_borrowers(&[("a", 1_000), ("b", 1_000)], fair(victims));
        engine.apply_gang(small_gang("a", priority, "a1", 16));
        engine.cycle(seconds(0));
        let expected = if may { "!b1 a1" } else { "-b1 QuotaExceeded" };
        assert_eq!(
            run(&mut engine, 1, &[("b", "b1", 1)]),
            [expected],
            "{victims:?} {priority}"
        );
    }
}

#[test]
fn minimum_runtime_and_protection_within_quota_count() {
    let mut engine = engine_with_borrowers(&[("a", 1_000), ("b", 1_000)], FAIR);
    engine.apply_gang(Gang {
        min_runtime: Duration::from_secs(60),
        ..small_gang("a", 0, "a1", 16)
    });
    engine.cycle(seconds(0));
    assert_eq!(
        run(&mut engine, 1, &[("b", "b1", 1)]),
        ["-b1 QuotaExceeded"]
    );
    assert_eq!(engine.next_wakeup(), Some(seconds(60)));
    assert_eq!(run(&mut engine, 60, &[]), ["!b1 a1"]);

    // `a` owns all that its protected gang holds.
    let mut engine = engine_with_borrowers(&[("a", 1_000), ("b", 1_000)], FAIR);
    engine.apply_queue(queue_below("all", None, 0, PreemptionPolicy::default()));
    engine.apply_queue(queue_below("a", Some("all"), 16, FAIR));
    engine.apply_gang(small_gang("a", 0, "a1", 16));
    engine.cycle(seconds(0));
    assert_eq!(
        run(&mut engine, 1, &[("b", "b1", 1)]),
        ["-b1 QuotaExceeded"]
    );
}

#[test]
fn queues_without_quotas_share_the_nodes() {
    let mut engine = Engine::with_decay(UsageDecay::with_half_life(0));
    for node in gpu_nodes(2).into_iter().take(2) {
        engine.apply_node(node);
    }
    engine.apply_queue(Queue::new(QueueName::new("all")));
    for name in ["a", "b"] {
        engine.apply_queue(Queue {
            parent: Some(QueueName::new("all")),
            preemption: FAIR,
            ..Queue::new(QueueName::new(name))
        });
    }
    run(&mut engine, 0, &[("a", "a1", 8), ("a", "a2", 8)]);
    let said = run(&mut engine, 1, &[("b", "b1", 8)]);
    assert!(said[0].starts_with("!b1 a"), "{said:?}");
    // A parked gang wakes when another queue gets more than its share.
    let mut engine = engine_with_borrowers(&[("a", 1_000), ("b", 1_000), ("c", 1_000)], FAIR);
    run(&mut engine, 0, &[("a", "a1", 8), ("b", "b1", 8)]);
    assert_eq!(
        run(&mut engine, 1, &[("c", "c1", 8)]),
        ["-c1 QuotaExceeded"]
    );
    engine.delete_gang(&id("a1"));
    let said = run(&mut engine, 2, &[]);
    assert_eq!(said, ["+c1"]);
}

/// The gang comes back to its queue, whose share is now the smaller one.
#[test]
fn preempted_gang_takes_its_share_but_never_takes_back() {
    let mut engine = engine_with_borrowers(&[("a", 1_000), ("b", 1_000), ("c", 1_000)], FAIR);
    run(&mut engine, 0, &[("a", "a1", 6), ("c", "c1", 10)]);
    let said = run(&mut engine, 1, &[("b", "b1", 8)]);
    assert_eq!(said, ["!b1 c1"]);
    engine.release_gang(&id("c1"), None);
    let said = run(&mut engine, 2, &[]);
    assert!(said.contains(&"+b1".to_owned()), "{said:?}");
    for second in 3..9 {
        assert!(run(&mut engine, second, &[]).is_empty());
    }
    // Now `b` holds 8. A smaller gang of `c` gets its share, once no larger one waits before it.
    engine.delete_gang(&id("c1"));
    let said = run(&mut engine, 10, &[("c", "c2", 4)]);
    assert_eq!(said, ["!c2 b1"]);
}

/// The gang of `a` is older, so `a` has the first turn.
#[test]
fn gang_does_not_start_if_the_same_cycle_would_take_its_place() {
    let mut engine = engine_with_borrowers(&[("a", 1_000), ("b", 1_000)], FAIR);
    run(&mut engine, 0, &[("a", "a1", 8)]);
    let said = run(&mut engine, 1, &[("a", "a2", 8), ("b", "b1", 8)]);
    assert_eq!(said, ["+b1", "-a2 QuotaExceeded"]);
}

#[test]
fn gang_that_could_preempt_by_priority_is_spared() {
    let mut engine = engine_with_borrowers(&[("a", 1_000), ("b", 1_000)], FAIR);
    engine.apply_queue(queue_below(
        "a",
        Some("all"),
        0,
        PreemptionPolicy {
            reclaim: ReclaimPolicy::Any,
            borrow_within: BorrowWithinPolicy::LowerPriority { max_priority: None },
            ..LOWER
        },
    ));
    engine.apply_gang(small_gang("a", 5, "a1", 16));
    engine.cycle(seconds(0));
    assert_eq!(
        run(&mut engine, 1, &[("b", "b1", 4)]),
        ["-b1 QuotaExceeded"]
    );
}

proptest! {
    #![proptest_config(cases(300))]

    /// Every queue wants more than there is. Gangs that leave come back at once.
    #[test]
    fn shares_converge_to_the_weights(
        weights in prop::collection::vec(prop_oneof![Just(500), Just(1_000), Just(2_000), Just(3_000)], 2..5),
        order in prop::collection::vec(any::<prop::sample::Index>(), 40),
    ) {
        let names = ["a", "b", "c", "d"];
        let queues: Vec<(&str, u32)> = names.into_iter().zip(weights).collect();
        let mut engine = engine_with_borrowers(&queues, FAIR);
        let mut preemptions = 0_usize;
        let mut second = 0_i64;
        let mut nominated = BTreeSet::new();
        let mut step = |engine: &mut Engine| {
            second += 1;
            let decisions = engine.cycle(seconds(second));
            let mut placed = Vec::new();
            for decision in &decisions {
                match decision {
                    // A nominated gang got its place in an earlier cycle.
                    Decision::Place { gang, .. } if !nominated.remove(gang) => {
                        placed.push(gang.clone());
                    }
                    Decision::Preempt { gang, victims, .. } => {
                        placed.push(gang.clone());
                        nominated.insert(gang.clone());
                        for victim in victims {
                            preemptions += 1;
                            assert_eq!(victim.reason, PreemptionReason::FairShare);
                            assert!(!placed.contains(&victim.gang), "placed in the same cycle");
                            engine.release_gang(&victim.gang, None);
                        }
                    }
                    _ => {}
                }
            }
            decisions.is_empty()
        };
        for (at, queue) in order.iter().enumerate() {
            let (queue, _) = queue.get(&queues);
            engine.apply_gang(small_gang(queue, 0, &format!("{queue}-first-{at}"), 1));
            step(&mut engine);
        }
        // From now on, each queue has more pending gangs than GPUs.
        for (queue, _) in &queues {
            for at in 0..16 {
                engine.apply_gang(small_gang(queue, 0, &format!("{queue}-then-{at}"), 1));
            }
        }
        let mut quiet = 0;
        while quiet < 3 {
            quiet = if step(&mut engine) { quiet + 1 } else { 0 };
        }
        let held: BTreeMap<&str, i128> = queues.iter().map(|(queue, _)| {
            let of = engine.queue_counts()[&QueueName::new(*queue)].admitted;
            (*queue, i128::try_from(of).unwrap())
        }).collect();
        prop_assert_eq!(held.values().sum::<i128>(), 16);
        for (one, weight) in &queues {
            for (other, other_weight) in &queues {
                let more = (held[one] + 1) * i128::from(*other_weight);
                let less = held[other] * i128::from(*weight);
                prop_assert!(more >= less, "{one} has less than its share: {held:?} {queues:?}");
            }
        }
        // The first gangs of one queue leave at most once each, and nothing is taken back.
        prop_assert!(preemptions <= 16, "{preemptions} preemptions");
    }
}
