//! Tests of victims that leave, and of their preemptor.

use crate::common::*;
use crate::limits::gpu_draw;
use crate::preemption::queues::{RECLAIM, engine_with_two_teams, small_gang};
use crate::preemption::{
    LOWER, apply_pods_of, delete_pods_of, engine_with_priority_preemption, expect_preemption,
    priority_gang, run_cycle_at, seconds,
};
use trellis_scheduler::{
    Engine, Gang, GroupName, LabelDomain, NodeName, Placement, PodKey, Queue, QueueName, QueueStop,
    ResourceName, Topology, TopologyLevel, TopologyName, TopologyRequest,
};

#[test]
fn drained_queue_evicts_all_its_gangs() {
    let mut engine = engine_with_priority_preemption(2);
    engine.apply_gang(Gang {
        preemptible: false,
        ..priority_gang(0, "one", 1)
    });
    engine.apply_gang(priority_gang(1, "two", 1));
    engine.cycle(seconds(0));
    engine.apply_queue(Queue {
        stop: QueueStop::HoldAndDrain,
        ..Queue::new(QueueName::new("default"))
    });
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["~one", "~two"]);
    engine.release_gang(&id("one"), None);
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["-one QueueStopped"]);
    assert_eq!(free_amount(&engine, "n01", GPU), 8);
    engine.apply_queue(Queue::new(QueueName::new("default")));
    assert_eq!(run_cycle_at(&mut engine, seconds(3)), ["+one"]);
}

#[test]
fn victim_that_stays_gets_its_quota_back_and_is_protected() {
    let mut engine = engine_with_two_teams(RECLAIM);
    engine.apply_gang(small_gang("a", 0, "a1", 12));
    engine.cycle(seconds(0));
    engine.apply_gang(small_gang("b", 0, "b1", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!b1 a1"]);
    assert!(engine.queue_usage(&QueueName::new("a")).is_empty());
    engine.release_gang(&id("b1"), None);
    engine.cancel_departure(&id("a1"), seconds(30));
    assert_eq!(
        engine.queue_usage(&QueueName::new("a"))[&ResourceName::new(GPU)],
        12
    );
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["-b1 QuotaExceeded"]);
    assert_eq!(engine.next_wakeup(), Some(seconds(30)));
    assert_eq!(run_cycle_at(&mut engine, seconds(30)), ["!b1 a1"]);
}

#[test]
fn preemptor_searches_again_when_its_planned_node_is_gone() {
    let mut engine = engine_with_priority_preemption(3);
    for name in ["a", "b", "c"] {
        engine.apply_gang(priority_gang(0, name, 1));
    }
    engine.cycle(seconds(0));
    engine.apply_gang(priority_gang(1, "high", 1));
    let (place, victims) = expect_preemption(&mut engine, seconds(1));
    let node = place.iter().next().unwrap().2.clone();
    engine.delete_node(&node);
    // The planned node is gone. The engine frees another node, and the first victim still leaves.
    let (next, others) = expect_preemption(&mut engine, seconds(2));
    assert_ne!(next.iter().next().unwrap().2, &node);
    assert_ne!(others[0].gang, victims[0].gang);
}

#[test]
fn preemptor_is_pending_again_when_an_external_pod_takes_its_place() {
    let mut engine = engine_with_priority_preemption(1);
    let low = priority_gang(0, "low", 1);
    engine.apply_gang(low.clone());
    engine.cycle(seconds(0));
    apply_pods_of(&mut engine, &low);
    engine.apply_gang(priority_gang(1, "high", 1));
    expect_preemption(&mut engine, seconds(1));
    engine.apply_pod(PodKey::new("x/foreign"), NodeName::new("n00"), gpu(1, 2));
    engine.release_gang(&id("low"), None);
    // The gang would not fit even after all leaving gangs are gone.
    let said = ["-high InsufficientCapacity", "-low InsufficientCapacity"];
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), said);
    delete_pods_of(&mut engine, &low);
    assert!(engine.cycle(seconds(3)).is_empty());
    engine.delete_pod(&PodKey::new("x/foreign"));
    assert_eq!(run_cycle_at(&mut engine, seconds(4)), ["+high"]);
}

#[test]
fn new_leader_continues_a_nomination() {
    let mut engine = engine_with_priority_preemption(1);
    let low = priority_gang(0, "low", 1);
    let high = priority_gang(1, "high", 1);
    let place: Placement = [(GroupName::new("worker"), vec![(NodeName::new("n00"), 1)])]
        .into_iter()
        .collect();
    engine.advance(seconds(9));
    engine.restore_gang(low.clone(), place.clone(), seconds(0));
    engine.restore_nomination(high, place, &[id("low"), id("unknown")]);
    assert!(engine.cycle(seconds(10)).is_empty());
    engine.delete_gang(&id("low"));
    assert_eq!(run_cycle_at(&mut engine, seconds(11)), ["+high"]);
}

#[test]
fn trial_lists_victims_and_changes_no_state() {
    let mut engine = engine_with_priority_preemption(1);
    engine.apply_gang(priority_gang(0, "low", 1));
    engine.cycle(seconds(0));
    let high = priority_gang(1, "high", 1);
    let first = engine.try_gang(&high, seconds(1)).unwrap();
    assert_eq!(first.victims[0].gang, id("low"));
    assert_eq!(engine.try_gang(&high, seconds(1)).unwrap(), first);
    assert_eq!(free_amount(&engine, "n00", GPU), 0);
    assert!(engine.cycle(seconds(1)).is_empty());
}

/// A gang leaves a whole node anyway, so no other gang has to leave.
#[test]
fn no_gang_is_evicted_when_a_drained_gang_frees_the_room() {
    let mut engine = engine_with_priority_preemption(2);
    engine.apply_queue(batch_queue(QueueStop::None));
    engine.apply_gang(Gang {
        queue: QueueName::new("batch"),
        ..priority_gang(0, "drained", 1)
    });
    engine.apply_gang(priority_gang(0, "low", 1));
    engine.cycle(seconds(0));
    engine.apply_queue(batch_queue(QueueStop::HoldAndDrain));
    engine.apply_gang(priority_gang(5, "high", 1));
    let said = run_cycle_at(&mut engine, seconds(1));
    assert_eq!(said, ["~drained", "-high InsufficientCapacity"]);
    // The departure is cancelled, so the gang stays.
    engine.apply_queue(batch_queue(QueueStop::None));
    engine.cancel_departure(&id("drained"), seconds(0));
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["!high low"]);
}

/// The preemptor is deleted. Then the victim has left, but its pods still exist.
#[test]
fn no_gang_is_evicted_when_a_former_victim_frees_the_room() {
    let mut engine = engine_with_priority_preemption(2);
    let a = priority_gang(0, "a", 1);
    engine.apply_gang(a.clone());
    engine.apply_gang(priority_gang(1, "b", 1));
    engine.cycle(seconds(0));
    apply_pods_of(&mut engine, &a);
    engine.apply_gang(priority_gang(5, "first", 1));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!first a"]);
    engine.delete_gang(&id("first"));
    engine.apply_gang(priority_gang(5, "second", 1));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(2)),
        ["-second InsufficientCapacity"]
    );
    engine.delete_gang(&id("a"));
    engine.apply_gang(priority_gang(6, "third", 1));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(3)),
        ["-third InsufficientCapacity"]
    );
    delete_pods_of(&mut engine, &a);
    assert_eq!(
        run_cycle_at(&mut engine, seconds(4)),
        ["+third", "!second b"]
    );
}

/// The watch is late: the engine sees pods of the victim after it has evicted the victim.
#[test]
fn preemptor_waits_for_late_pods_of_its_victim() {
    let mut engine = engine_with_priority_preemption(2);
    let a = priority_gang(0, "a", 1);
    engine.apply_gang(a.clone());
    engine.apply_gang(priority_gang(1, "b", 1));
    engine.cycle(seconds(0));
    engine.apply_gang(priority_gang(5, "high", 1));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!high a"]);
    apply_pods_of(&mut engine, &a);
    engine.release_gang(&id("a"), None);
    assert_eq!(
        run_cycle_at(&mut engine, seconds(2)),
        ["-a InsufficientCapacity"]
    );
    delete_pods_of(&mut engine, &a);
    assert_eq!(run_cycle_at(&mut engine, seconds(3)), ["+high"]);
}

/// A victim has left, started elsewhere, and leaves again.
#[test]
fn preemptor_waits_for_a_victim_only_once() {
    let mut engine = engine_with_priority_preemption(2);
    engine.apply_gang(priority_gang(0, "a", 1));
    engine.apply_gang(priority_gang(0, "b", 1));
    engine.cycle(seconds(0));
    engine.apply_gang(priority_gang(5, "high", 2));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!high a b"]);
    engine.apply_node(gpu_node("n02", 8));
    engine.release_gang(&id("a"), None);
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["+a"]);
    engine.apply_gang(Gang {
        excluded_nodes: vec![NodeName::new("n00"), NodeName::new("n01")],
        ..priority_gang(7, "other", 1)
    });
    assert_eq!(run_cycle_at(&mut engine, seconds(3)), ["!other a"]);
    engine.release_gang(&id("b"), None);
    let said = run_cycle_at(&mut engine, seconds(4));
    assert_eq!(said, ["+high", "-b InsufficientCapacity"]);
}

/// Returns an engine in which `high` is nominated for the only node, and `low` is its victim.
fn engine_with_nomination() -> Engine {
    let mut engine = engine([label(gpu_node("n00", 8), "zone", "z0")]);
    engine.apply_queue(default_queue(QueueStop::None));
    engine.apply_gang(priority_gang(0, "low", 1));
    engine.cycle(seconds(0));
    engine.apply_gang(priority_gang(5, "high", 1));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!high low"]);
    engine
}

fn default_queue(stop: QueueStop) -> Queue {
    Queue {
        preemption: LOWER,
        stop,
        ..Queue::new(QueueName::new("default"))
    }
}

#[test]
fn changed_nominated_gang_is_placed_only_where_it_fits_now() {
    let kept_out = {
        let mut gang = priority_gang(5, "high", 1);
        gang.groups[0].constraints.kept_out.insert(LabelDomain {
            label: "zone".into(),
            value: "z0".into(),
        });
        gang
    };
    let excludes = Gang {
        excluded_nodes: vec![NodeName::new("n00")],
        ..priority_gang(5, "high", 1)
    };
    let twice = priority_gang(5, "high", 2);
    for changed in [kept_out, excludes, twice] {
        let mut engine = engine_with_nomination();
        engine.apply_gang(changed.clone());
        engine.delete_gang(&id("low"));
        let said = run_cycle_at(&mut engine, seconds(2));
        assert!(said[0].starts_with("-high"), "{said:?}");
        assert_eq!(free_amount(&engine, "n00", GPU), 8, "{changed:?}");
    }
    // A change that does not affect its place does not end the nomination.
    let mut engine = engine_with_nomination();
    engine.apply_gang(Gang {
        excluded_nodes: vec![NodeName::new("elsewhere")],
        ..priority_gang(6, "high", 1)
    });
    assert!(engine.cycle(seconds(2)).is_empty());
    engine.delete_gang(&id("low"));
    assert_eq!(run_cycle_at(&mut engine, seconds(3)), ["+high"]);
}

#[test]
fn nominated_gang_waits_again_if_its_place_breaks_its_topology() {
    let rack = |name: &str, rack: &str| label(gpu_node(name, 8), "rack", rack);
    for moves in [false, true] {
        let mut engine = engine([rack("n00", "r0"), rack("n01", "r0")]);
        engine.apply_topology(Topology {
            name: TopologyName::new("hall"),
            levels: vec![TopologyLevel::from_label("rack")],
        });
        engine.apply_queue(default_queue(QueueStop::None));
        engine.apply_gang(priority_gang(0, "low", 2));
        engine.cycle(seconds(0));
        engine.apply_gang(Gang {
            topology: Some(TopologyRequest::required("rack")),
            ..priority_gang(5, "high", 2)
        });
        assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!high low"]);
        // One of the nodes moves to another rack.
        if moves {
            engine.apply_node(rack("n01", "r1"));
        }
        engine.delete_gang(&id("low"));
        let said = run_cycle_at(&mut engine, seconds(2));
        let expected = if moves {
            "-high ExceedsTopology"
        } else {
            "+high"
        };
        assert_eq!(said, [expected]);
    }
}

#[test]
fn nominated_gang_of_a_stopped_queue_does_not_start() {
    for stop in [QueueStop::Hold, QueueStop::HoldAndDrain] {
        let mut engine = engine_with_nomination();
        engine.apply_queue(default_queue(stop));
        assert_eq!(
            run_cycle_at(&mut engine, seconds(2)),
            ["-high QueueStopped"]
        );
        engine.delete_gang(&id("low"));
        assert!(engine.cycle(seconds(3)).is_empty());
    }
}

/// A nominated place and the victims that still hold it count once: on 16 GPUs gangs hold no more
/// than 16.
#[test]
fn nominated_place_and_its_victims_count_once() {
    let mut engine = engine_with_priority_preemption(2);
    let low = priority_gang(0, "low", 2);
    engine.apply_gang(low.clone());
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+low"]);
    apply_pods_of(&mut engine, &low);
    engine.apply_gang(priority_gang(5, "high", 2));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!high low"]);
    let refusal = trial_explanation(&mut engine, &priority_gang(0, "third", 1));
    assert!(
        refusal.to_string().contains("gangs hold 16, other pods 0"),
        "{refusal}"
    );
}

/// The caller cannot start the gang yet, for example because a new policy has not judged it.
#[test]
fn gang_whose_start_is_put_off_keeps_its_place_from_its_victim() {
    let mut engine = engine_with_two_teams(RECLAIM);
    engine.apply_gang(small_gang("a", 0, "a1", 12));
    engine.cycle(seconds(0));
    engine.apply_gang(small_gang("b", 0, "b1", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!b1 a1"]);
    engine.delete_gang(&id("a1"));
    engine.apply_gang(small_gang("a", 0, "a1", 12));
    let said = run_cycle_at(&mut engine, seconds(2));
    assert_eq!(said, ["+b1", "-a1 QuotaExceeded"]);
    engine.put_off_start(&id("b1"));
    assert_eq!(run_cycle_at(&mut engine, seconds(3)), ["+b1"]);
    engine.put_off_start(&id("b1"));
    // The limits of the new policy have no room for the gang.
    engine.apply_draws(&id("b1"), vec![gpu_draw(0)]);
    let said = run_cycle_at(&mut engine, seconds(4));
    assert_eq!(said, ["+a1", "-b1 QuotaPolicyExceeded"]);
}
