//! Tests of quota and limits of leaving gangs: no other gang gets them before the gangs have left.

use std::time::Duration;

use crate::common::*;
use crate::preemption::queues::small_gang;
use crate::preemption::{
    LOWER, apply_pods_of, delete_pods_of, expect_preemption, priority_gang, run_cycle_at, seconds,
};
use crate::snapshots::restored_engine;
use trellis_scheduler::{
    Engine, Forecast, Gang, LimitDraw, LimitName, LimitUnit, NodeName, Queue, QueueName, QueueStop,
    Quota, ResourceName, WaitDetail,
};

/// Returns an engine with nodes of 8 GPUs, and a queue `q` with this quota in which priority
/// preempts.
fn engine_with_quota(nodes: usize, gpus: i64) -> Engine {
    let mut engine = engine(gpu_nodes(nodes));
    engine.apply_queue(Queue {
        preemption: LOWER,
        ..queue("q", Some(&[(GPU, gpus), ("cpu", 1 << 40)]))
    });
    engine
}

fn in_queue_q(gang: Gang) -> Gang {
    Gang {
        queue: QueueName::new("q"),
        ..gang
    }
}

#[test]
fn surplus_quota_of_a_victim_is_unavailable_until_it_has_left() {
    let mut engine = engine_with_quota(4, 16);
    let low = Gang {
        grace: Duration::from_secs(600),
        ..in_queue_q(priority_gang(0, "low", 2))
    };
    engine.apply_gang(low.clone());
    engine.cycle(seconds(0));
    apply_pods_of(&mut engine, &low);
    engine.apply_gang(in_queue_q(priority_gang(5, "high", 1)));
    expect_preemption(&mut engine, seconds(1));
    engine.apply_gang(in_queue_q(priority_gang(0, "next", 1)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(2)),
        ["-next QuotaExceeded"]
    );
    // Its victim still holds the quota, as the explanation of the pending gang says.
    let told = engine.explanation(&id("next")).unwrap().to_string();
    assert!(told.contains("16 of 16") && told.contains("low"), "{told}");
    let mut again = restored_engine(&engine).unwrap();
    for engine in [&mut engine, &mut again] {
        // Its pods have only begun to stop.
        engine.delete_pod(&worker_key("low", 0));
        assert!(run_cycle_at(engine, seconds(3)).is_empty());
        delete_pods_of(engine, &low);
        engine.delete_gang(&id("low"));
        let said = run_cycle_at(engine, seconds(4));
        assert_eq!(said, ["+high", "+next"]);
    }
}

/// The engine knows when leaving quota becomes free. Gangs that end before then may start, and
/// other gangs leave the quota to the gang that waits for it.
#[test]
fn head_start_is_known_while_leaving_quota_is_charged() {
    let mut engine = engine_with_quota(5, 24);
    let low = Gang {
        grace: Duration::from_secs(60),
        ..in_queue_q(priority_gang(0, "low", 2))
    };
    engine.apply_gang(in_queue_q(small_gang("q", 9, "stays", 7)));
    engine.apply_gang(low.clone());
    engine.cycle(seconds(0));
    apply_pods_of(&mut engine, &low);
    let pinned = |gang: Gang| Gang {
        excluded_nodes: vec![NodeName::new("n03"), NodeName::new("n04")],
        ..gang
    };
    engine.apply_gang(pinned(in_queue_q(priority_gang(5, "high", 1))));
    expect_preemption(&mut engine, seconds(1));
    engine.apply_gang(in_queue_q(small_gang("q", 1, "next", 9)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(2)),
        ["-next QuotaExceeded"]
    );
    let one = |name: &str, runtime| Gang {
        runtime: Some(Duration::from_secs(runtime)),
        ..in_queue_q(small_gang("q", 0, name, 1))
    };
    engine.apply_gang(one("long", 600));
    assert_eq!(run_cycle_at(&mut engine, seconds(3)), ["-long Reserved"]);
    let told = &engine.explanation(&id("long")).unwrap().detail;
    let until = match &**told {
        WaitDetail::QuotaReserved { start, .. } => *start,
        other => panic!("{other:?}"),
    };
    assert_eq!(until, Some(seconds(61)), "when the victim has left");
    engine.apply_gang(one("short", 50));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(3)),
        ["+short", "-long QuotaExceeded"]
    );
}

#[test]
fn drained_gang_frees_no_quota_before_it_has_left() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(Queue::new(QueueName::new("all")));
    let team = |name: &str, gpus, stop| {
        let quota = |nominal| Quota {
            nominal,
            ..Quota::default()
        };
        let quotas = [
            (ResourceName::new(GPU), quota(gpus)),
            (ResourceName::new("cpu"), quota(1 << 40)),
        ];
        Queue {
            parent: Some(QueueName::new("all")),
            stop,
            ..Queue::new(QueueName::new(name)).with_quotas(quotas)
        }
    };
    engine.apply_queue(team("a", 8, QueueStop::None));
    engine.apply_queue(team("b", 0, QueueStop::None));
    let of = |queue: &str, name: &str| Gang {
        queue: QueueName::new(queue),
        ..priority_gang(0, name, 1)
    };
    engine.apply_gang(of("a", "drained"));
    engine.cycle(seconds(0));
    engine.apply_queue(team("a", 8, QueueStop::HoldAndDrain));
    engine.apply_gang(of("b", "borrows"));
    let said = run_cycle_at(&mut engine, seconds(1));
    assert_eq!(said, ["~drained", "-borrows QuotaExceeded"]);
    engine.release_gang(&id("drained"), None);
    let said = run_cycle_at(&mut engine, seconds(2));
    assert_eq!(said, ["+borrows", "-drained QueueStopped"]);
}

/// Returns an engine with two gangs that hold the whole quota: 12 and 4 GPUs, the second of higher
/// priority.
fn engine_with_slow_and_quick_gangs() -> (Engine, Gang, Gang) {
    let mut engine = engine_with_quota(6, 16);
    let (slow, quick) = (
        in_queue_q(small_gang("q", 0, "slow", 12)),
        in_queue_q(small_gang("q", 1, "quick", 4)),
    );
    for gang in [&slow, &quick] {
        engine.apply_gang(gang.clone());
        engine.cycle(seconds(0));
        apply_pods_of(&mut engine, gang);
    }
    (engine, slow, quick)
}

/// Requires nodes that the two gangs do not use. There is room, and only quota is missing.
fn on_other_nodes(gang: Gang) -> Gang {
    Gang {
        excluded_nodes: vec![NodeName::new("n00"), NodeName::new("n01")],
        ..gang
    }
}

/// The first victim stops slowly. It leaves more quota than its own preemptor needs, and the second
/// preemptor uses the rest. So the second preemptor must wait for it, although its own victim has
/// left.
#[test]
fn preemptor_waits_for_quota_that_another_victim_still_uses() {
    let (mut engine, slow, quick) = engine_with_slow_and_quick_gangs();
    engine.apply_gang(on_other_nodes(in_queue_q(small_gang("q", 9, "one", 4))));
    let (_, victims) = expect_preemption(&mut engine, seconds(1));
    assert_eq!(victims[0].gang, id("slow"));
    engine.apply_gang(on_other_nodes(in_queue_q(small_gang("q", 8, "two", 10))));
    let (_, victims) = expect_preemption(&mut engine, seconds(2));
    assert_eq!(victims[0].gang, id("quick"));
    delete_pods_of(&mut engine, &quick);
    engine.delete_gang(&id("quick"));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(3)),
        ["+one"],
        "12 + 10 are more than 16"
    );
    delete_pods_of(&mut engine, &slow);
    engine.delete_gang(&id("slow"));
    assert_eq!(run_cycle_at(&mut engine, seconds(4)), ["+two"]);
}

/// The quota of this gang has passed to the preemptors.
#[test]
fn preemptor_waits_again_when_its_victim_stays() {
    let (mut engine, _, quick) = engine_with_slow_and_quick_gangs();
    engine.apply_gang(on_other_nodes(in_queue_q(small_gang("q", 9, "one", 4))));
    expect_preemption(&mut engine, seconds(1));
    engine.apply_gang(on_other_nodes(in_queue_q(small_gang("q", 8, "two", 10))));
    let (_, victims) = expect_preemption(&mut engine, seconds(2));
    assert_eq!(victims.len(), 1, "it counts on what the first leaves, too");
    engine.cancel_departure(&id("slow"), seconds(100));
    delete_pods_of(&mut engine, &quick);
    engine.delete_gang(&id("quick"));
    let said = run_cycle_at(&mut engine, seconds(3));
    assert_eq!(said, ["+one", "-two QuotaExceeded"], "12 + 4 of 16");
}

/// No other gang gets the quota of stopping pods before they have stopped, for every cause of the
/// stop.
#[test]
fn deleted_gang_uses_quota_until_its_last_pod_has_stopped() {
    let mut engine = engine_with_quota(4, 16);
    let (first, next) = (
        in_queue_q(priority_gang(0, "first", 2)),
        in_queue_q(priority_gang(0, "next", 1)),
    );
    engine.apply_gang(first.clone());
    engine.cycle(seconds(0));
    engine.apply_pod(
        first.pod_key(&first.groups[0], 0),
        NodeName::new("n00"),
        gpu(0, 8),
    );
    engine.apply_pod(
        first.pod_key(&first.groups[0], 1),
        NodeName::new("n01"),
        gpu(0, 8),
    );
    engine.apply_gang(next);
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1)),
        ["-next QuotaExceeded"]
    );
    engine.retire_gang(&id("first"));
    let mut again = restored_engine(&engine).unwrap();
    for engine in [&mut engine, &mut again] {
        engine.retire_gang(&id("first"));
        assert_eq!(run_cycle_at(engine, seconds(2)), [""; 0]);
        let told = engine.explanation(&id("next")).unwrap().to_string();
        assert!(
            told.contains("16 of 16") && told.contains("first"),
            "{told}"
        );
        engine.delete_pod(&worker_key("first", 0));
        assert_eq!(run_cycle_at(engine, seconds(3)), [""; 0]);
        engine.cancel_departure(&id("first"), seconds(100));
        engine.lose_pod(&worker_key("first", 1));
        assert_eq!(run_cycle_at(engine, seconds(4)), ["+next"]);
        assert!(engine.placement(&id("first")).is_none());
    }
}

#[test]
fn unobserved_pods_of_a_deleted_gang_free_quota_at_once() {
    let mut engine = engine_with_quota(2, 16);
    engine.apply_gang(in_queue_q(priority_gang(0, "first", 2)));
    engine.cycle(seconds(0));
    engine.apply_gang(in_queue_q(priority_gang(0, "next", 2)));
    run_cycle_at(&mut engine, seconds(1));
    engine.retire_gang(&id("first"));
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["+next"]);
}

/// A preemptor has not started yet, and its quota is lowered. The lower quota no longer admits it.
#[test]
fn lowered_quota_admits_only_preemptors_that_fit() {
    let mut engine = engine_with_quota(2, 16);
    engine.apply_gang(in_queue_q(priority_gang(0, "low", 1)));
    engine.apply_gang(in_queue_q(priority_gang(0, "other", 1)));
    engine.cycle(seconds(0));
    engine.apply_gang(in_queue_q(priority_gang(5, "high", 1)));
    expect_preemption(&mut engine, seconds(1));
    engine.apply_gang(in_queue_q(priority_gang(6, "higher", 1)));
    expect_preemption(&mut engine, seconds(1));
    engine.apply_queue(Queue {
        preemption: LOWER,
        ..queue("q", Some(&[(GPU, 8), ("cpu", 1 << 40)]))
    });
    engine.delete_gang(&id("other"));
    engine.delete_gang(&id("low"));
    let said = run_cycle_at(&mut engine, seconds(2));
    assert_eq!(said, ["+higher", "-high QuotaExceeded"]);
}

#[test]
fn limit_is_charged_until_the_victim_has_left() {
    let mut engine = engine_with_quota(3, 24);
    let jobs = |gang: Gang| Gang {
        draws: vec![LimitDraw {
            limit: LimitName::new("jobs"),
            of: LimitUnit::Gangs,
            max: Some(1),
            refuses: false,
        }],
        ..gang
    };
    let low = in_queue_q(jobs(priority_gang(0, "low", 3)));
    engine.apply_gang(low.clone());
    engine.cycle(seconds(0));
    apply_pods_of(&mut engine, &low);
    // The preemptor draws on no limit, so the victim's limit does not pass to it.
    engine.apply_gang(in_queue_q(priority_gang(5, "high", 1)));
    expect_preemption(&mut engine, seconds(1));
    engine.apply_node(gpu_node("n09", 8));
    engine.apply_gang(jobs(priority_gang(0, "next", 1)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(2)),
        ["-next QuotaPolicyExceeded"]
    );
    let told = engine.explanation(&id("next")).unwrap().to_string();
    assert!(told.contains("low"), "{told}");
    let mut again = restored_engine(&engine).unwrap();
    for engine in [&mut engine, &mut again] {
        delete_pods_of(engine, &low);
        engine.delete_gang(&id("low"));
        assert_eq!(run_cycle_at(engine, seconds(3)), ["+high", "+next"]);
    }
}

/// The engine knows when stopping pods are gone, and when the gang that waits for them starts.
#[test]
fn head_start_is_known_while_deleted_pods_stop() {
    let mut engine = engine_with_quota(4, 16);
    let first = Gang {
        grace: Duration::from_secs(60),
        ..in_queue_q(priority_gang(0, "first", 2))
    };
    engine.apply_gang(first.clone());
    engine.cycle(seconds(0));
    apply_pods_of(&mut engine, &first);
    engine.apply_gang(in_queue_q(priority_gang(0, "next", 2)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1)),
        ["-next QuotaExceeded"]
    );
    engine.retire_gang(&id("first"));
    engine.delete_pod(&worker_key("first", 0));
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), [""; 0]);
    let forecast = Forecast::from_snapshot(&engine.snapshot(), |_| true);
    assert_eq!(forecast.starts.get(&id("next")), Some(&seconds(61)));
}

/// A new gang with the name of a gang whose pods still stop is a different gang.
#[test]
fn new_gang_with_the_name_of_a_stopping_gang_is_separate() {
    let mut engine = engine_with_quota(4, 16);
    let first = in_queue_q(priority_gang(0, "first", 1));
    engine.apply_gang(first.clone());
    engine.cycle(seconds(0));
    apply_pods_of(&mut engine, &first);
    engine.retire_gang(&id("first"));
    engine.apply_gang(in_queue_q(priority_gang(0, "first", 2)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1)),
        ["-first QuotaExceeded"],
        "8 + 16"
    );
    engine.lose_pod(&worker_key("first", 0));
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["+first"]);
    engine.delete_gang(&id("first"));
    let node = NodeName::new("n00");
    assert_eq!(engine.free(&node).unwrap()[&ResourceName::new(GPU)], 8);
}

/// A kept place holds its quota while it is kept and while its pods stop, on excluded nodes too.
#[test]
fn kept_place_that_ends_uses_quota_until_its_pods_are_gone() {
    let all = || (0..3).map(|index| NodeName::new(format!("n0{index}")));
    for (over, excluded) in [(false, 0), (true, 0), (false, 3), (true, 3)] {
        let case = format!("over: {over}, excluded: {excluded}");
        let mut engine = engine_with_quota(3, 8);
        let first = Gang {
            grace: Duration::from_secs(600),
            ..in_queue_q(priority_gang(0, "first", 1))
        };
        engine.apply_gang(first.clone());
        engine.cycle(seconds(0));
        apply_pods_of(&mut engine, &first);
        let excluded: Vec<_> = all().take(excluded).collect();
        assert!(engine.keep_place(&id("first"), &excluded, seconds(120)));
        engine.apply_gang(in_queue_q(priority_gang(0, "next", 1)));
        assert_eq!(
            run_cycle_at(&mut engine, seconds(1)),
            ["-next QuotaExceeded"]
        );
        let now = if over {
            seconds(200)
        } else {
            engine.retire_gang(&id("first"));
            seconds(2)
        };
        assert_eq!(run_cycle_at(&mut engine, now), [""; 0], "{case}");
        engine.lose_pod(&worker_key("first", 0));
        let said = run_cycle_at(&mut engine, now.plus(Duration::from_secs(1)));
        assert_eq!(said, ["+next"], "{case}");
    }
}
