//! Tests of which quota a queue may reclaim from another queue, and from which of its gangs.

use crate::common::*;
use crate::preemption::queues::{RECLAIM, engine_with_two_teams, queue_below};
use crate::preemption::{
    LOWER, engine_with_priority_preemption, priority_gang, run_cycle_at, seconds,
};
use trellis_scheduler::{
    Engine, Gang, GroupName, NodeName, Placement, PodKey, PreemptionPolicy, Queue, QueueName,
    Quota, ResourceName, Topology, TopologyLevel, TopologyName, TopologyRequest,
};

/// Returns a gang of one pod with this many GPUs.
fn queue_gang(queue: &str, priority: i32, name: &str, gpus: i64) -> Gang {
    Gang {
        priority,
        queue: QueueName::new(queue),
        ..workers(name, 1, gpu(1, gpus))
    }
}

fn placement_on(node: &str) -> Placement {
    let runs = vec![(NodeName::new(node), 1)];
    [(GroupName::new("worker"), runs)].into_iter().collect()
}

/// Returns an engine in which `a`, `b` and `c` own 8 GPUs each. There are two nodes of 8, one of
/// which an external pod uses, and one node of 4.
fn engine_with_three_teams() -> Engine {
    let mut engine = engine([gpu_node("n0", 8), gpu_node("n1", 8), gpu_node("n2", 4)]);
    engine.apply_queue(queue_below("all", None, 0, PreemptionPolicy::default()));
    for team in ["a", "b", "c"] {
        engine.apply_queue(queue_below(team, Some("all"), 8, RECLAIM));
    }
    apply_pod(&mut engine, "x/f", "n1", gpu(1, 8));
    engine
}

#[test]
fn gang_that_frees_no_useful_room_is_no_victim() {
    let mut engine = engine_with_three_teams();
    engine.apply_gang(queue_gang("b", 0, "old", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+old"]);
    // The gang would lose less work, but its node has fewer than 8 GPUs. Also, `b` does not borrow
    // more because of it.
    engine.apply_gang(queue_gang("b", 0, "more", 4));
    run_cycle_at(&mut engine, seconds(2));
    engine.apply_gang(queue_gang("a", 0, "mine", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(3)), ["!mine old"]);
}

#[test]
fn gang_wakes_when_it_may_reclaim() {
    let mut engine = engine_with_three_teams();
    engine.apply_gang(queue_gang("b", 0, "old", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+old"]);
    engine.apply_gang(queue_gang("a", 0, "mine", 8));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1)),
        ["-mine InsufficientCapacity"]
    );
    engine.apply_gang(queue_gang("b", 1, "more", 4));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(2)),
        ["+more", "!mine old"]
    );
    // A new engine with the same state gives the same result.
    let mut anew = engine_with_three_teams();
    anew.restore_gang(queue_gang("b", 0, "old", 8), placement_on("n0"), seconds(0));
    anew.restore_gang(
        queue_gang("b", 1, "more", 4),
        placement_on("n2"),
        seconds(2),
    );
    anew.apply_gang(queue_gang("a", 0, "mine", 8));
    assert_eq!(run_cycle_at(&mut anew, seconds(3)), ["!mine old"]);
}

#[test]
fn gang_wakes_to_reclaim_when_a_gang_of_its_queue_has_ended() {
    let mut engine = engine([gpu_node("n0", 8), gpu_node("n1", 4)]);
    engine.apply_queue(queue_below("all", None, 4, PreemptionPolicy::default()));
    engine.apply_queue(queue_below("a", Some("all"), 8, RECLAIM));
    engine.apply_queue(queue_below("b", Some("all"), 0, RECLAIM));
    engine.restore_gang(
        queue_gang("b", 0, "other", 8),
        placement_on("n0"),
        seconds(0),
    );
    engine.restore_gang(queue_gang("a", 0, "own", 4), placement_on("n1"), seconds(0));
    // `a` would hold 12 of its 8.
    engine.apply_gang(queue_gang("a", 0, "mine", 8));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1)),
        ["-mine QuotaExceeded"]
    );
    engine.delete_gang(&id("own"));
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["!mine other"]);
}

#[test]
fn owner_wakes_when_a_queue_without_quota_starts_borrowing() {
    let mut engine = engine([gpu_node("n0", 8), gpu_node("n1", 8)]);
    engine.apply_queue(queue_below("team", None, 16, RECLAIM));
    apply_pod(&mut engine, "x/f", "n0", gpu(1, 8));
    apply_pod(&mut engine, "x/g", "n1", gpu(1, 4));
    engine.apply_gang(queue_gang("team", 0, "mine", 8));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(0)),
        ["-mine InsufficientCapacity"]
    );
    engine.delete_pod(&PodKey::new("x/g"));
    engine.restore_gang(
        queue_gang("default", 9, "open", 8),
        placement_on("n1"),
        seconds(1),
    );
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["!mine open"]);
}

#[test]
fn non_preemptible_gang_within_quota_stays_while_another_gang_leaves() {
    let mut engine = engine_with_two_teams(RECLAIM);
    engine.apply_gang(queue_gang("a", 9, "may-go", 8));
    run_cycle_at(&mut engine, seconds(0));
    let kept = Gang {
        preemptible: false,
        ..queue_gang("a", 0, "kept", 8)
    };
    engine.apply_gang(kept.clone());
    run_cycle_at(&mut engine, seconds(50));
    engine.apply_gang(queue_gang("b", 0, "owner", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(60)), ["!owner may-go"]);
    // If both are non-preemptible, one of them is beyond quota. The gang that loses less leaves.
    let mut engine = engine_with_two_teams(RECLAIM);
    engine.apply_gang(Gang {
        preemptible: false,
        ..queue_gang("a", 9, "too", 8)
    });
    engine.apply_gang(kept);
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+too", "+kept"]);
    engine.apply_gang(queue_gang("b", 0, "owner", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(60)), ["!owner kept"]);
}

#[test]
fn non_preemptible_gang_within_quota_stays_within_its_queue() {
    let mut engine = engine_with_priority_preemption(2);
    engine.apply_queue(queue_below("all", None, 8, PreemptionPolicy::default()));
    engine.apply_queue(queue_below("q", Some("all"), 8, LOWER));
    let in_q = |gang: Gang| Gang {
        queue: QueueName::new("q"),
        ..gang
    };
    engine.apply_gang(in_q(Gang {
        preemptible: false,
        ..priority_gang(0, "kept", 1)
    }));
    engine.apply_gang(in_q(priority_gang(1, "may-go", 1)));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)).len(), 2);
    engine.apply_gang(in_q(priority_gang(5, "high", 1)));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!high may-go"]);
}

#[test]
fn missing_resource_is_reclaimed_from_its_borrower() {
    let mut engine = engine(gpu_nodes(3));
    let queue = |name: &str, parent: Option<&str>, gpus: i64, cores: i64| {
        let quota = |nominal| Quota {
            nominal,
            ..Quota::default()
        };
        let quotas = [
            (ResourceName::new(GPU), quota(gpus)),
            (ResourceName::new("cpu"), quota(cores * 1_000)),
        ];
        Queue {
            parent: parent.map(QueueName::new),
            preemption: RECLAIM,
            ..Queue::new(QueueName::new(name)).with_quotas(quotas)
        }
    };
    engine.apply_queue(queue("all", None, 8, 100));
    engine.apply_queue(queue("a", Some("all"), 8, 8));
    engine.apply_queue(queue("b", Some("all"), 8, 0));
    engine.apply_queue(queue("c", Some("all"), 0, 8));
    engine.apply_gang(queue_gang("c", 0, "borrows-gpus", 8));
    run_cycle_at(&mut engine, seconds(0));
    // The gang would lose less work, and its queue borrows a core.
    engine.apply_gang(queue_gang("b", 0, "own-gpus", 8));
    run_cycle_at(&mut engine, seconds(100));
    apply_pod(&mut engine, "x/f", "n02", gpu(1, 8));
    engine.apply_gang(queue_gang("a", 0, "owner", 8));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(110)),
        ["!owner borrows-gpus"]
    );
}

#[test]
fn cheapest_domain_is_chosen() {
    let mut engine = engine_with_priority_preemption(0);
    for (node, rack) in [("n0", "r1"), ("n1", "r1"), ("n2", "r2"), ("n3", "r2")] {
        engine.apply_node(label(gpu_node(node, 8), "rack", rack));
    }
    engine.apply_topology(Topology {
        name: TopologyName::new("hall"),
        levels: vec![TopologyLevel::from_label("rack")],
    });
    // At 1,000 s the victims would lose 5 + 50 s of 8 GPUs in `r1`, and 30 + 40 s in `r2`.
    engine.advance(seconds(1_000));
    for (name, node, since) in [
        ("v1", "n0", 995),
        ("v2", "n1", 950),
        ("v3", "n2", 970),
        ("v4", "n3", 960),
    ] {
        engine.restore_gang(
            queue_gang("default", 0, name, 8),
            placement_on(node),
            seconds(since),
        );
    }
    let mut high = priority_gang(5, "high", 2);
    high.topology = Some(TopologyRequest::required("rack"));
    engine.apply_gang(high);
    assert_eq!(run_cycle_at(&mut engine, seconds(1_000)), ["!high v1 v2"]);
}

/// The quota is removed while the queue holds some. All that it holds is then borrowed.
#[test]
fn usage_of_a_removed_quota_is_reclaimed() {
    let mut engine = engine_with_two_teams(RECLAIM);
    engine.apply_gang(queue_gang("a", 0, "held", 8));
    engine.apply_gang(queue_gang("b", 0, "own", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+held", "+own"]);
    engine.apply_queue(queue_below("b", Some("all"), 16, RECLAIM));
    let none = Queue::new(QueueName::new("a")).with_quotas([]);
    engine.apply_queue(Queue {
        parent: Some(QueueName::new("all")),
        ..none
    });
    engine.apply_gang(queue_gang("b", 0, "more", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!more held"]);
}
