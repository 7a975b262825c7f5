//! Tests of which quota may be reclaimed from another queue, and from which of its gangs.

use crate::common::*;
use crate::preemption::{LOWER, at, by_priority, of, seconds};
use crate::preemption_queues::{RECLAIM, below, two_teams};
use trellis_scheduler::{
    Engine, Gang, GroupName, NodeName, Placement, PodKey, Preemption, Queue, QueueName, Quota,
    ResourceName, Topology, TopologyLevel, TopologyName, TopologyRequest,
};

/// A gang of one pod with this many GPUs.
fn part(queue: &str, priority: i32, name: &str, gpus: i64) -> Gang {
    Gang {
        priority,
        queue: QueueName::new(queue),
        ..workers(name, 1, gpu(1, gpus))
    }
}

fn on(node: &str) -> Placement {
    let runs = vec![(NodeName::new(node), 1)];
    [(GroupName::new("worker"), runs)].into_iter().collect()
}

/// `a`, `b` and `c` own 8 GPUs each; there are nodes of 8 (one is used by an external pod) and one
/// of 4.
fn three_teams() -> Engine {
    let mut engine = engine([gpu_node("n0", 8), gpu_node("n1", 8), gpu_node("n2", 4)]);
    engine.apply_queue(below("all", None, 0, Preemption::default()));
    for team in ["a", "b", "c"] {
        engine.apply_queue(below(team, Some("all"), 8, RECLAIM));
    }
    pod(&mut engine, "x/f", "n1", gpu(1, 8));
    engine
}

#[test]
fn whoever_is_of_no_use_is_not_asked() {
    let mut engine = three_teams();
    engine.apply_gang(part("b", 0, "old", 8));
    assert_eq!(at(&mut engine, seconds(0)), ["+old"]);
    // The gang loses less work, but its node never holds 8; and `b` does not borrow more through
    // it.
    engine.apply_gang(part("b", 0, "more", 4));
    at(&mut engine, seconds(2));
    engine.apply_gang(part("a", 0, "mine", 8));
    assert_eq!(at(&mut engine, seconds(3)), ["!mine old"]);
}

#[test]
fn who_may_reclaim_now_is_woken() {
    let mut engine = three_teams();
    engine.apply_gang(part("b", 0, "old", 8));
    assert_eq!(at(&mut engine, seconds(0)), ["+old"]);
    engine.apply_gang(part("a", 0, "mine", 8));
    assert_eq!(at(&mut engine, seconds(1)), ["-mine InsufficientCapacity"]);
    engine.apply_gang(part("b", 1, "more", 4));
    assert_eq!(at(&mut engine, seconds(2)), ["+more", "!mine old"]);
    // The same state built anew gives the same result.
    let mut anew = three_teams();
    anew.restore_gang(part("b", 0, "old", 8), on("n0"), seconds(0));
    anew.restore_gang(part("b", 1, "more", 4), on("n2"), seconds(2));
    anew.apply_gang(part("a", 0, "mine", 8));
    assert_eq!(at(&mut anew, seconds(3)), ["!mine old"]);
}

#[test]
fn who_reclaims_again_since_its_own_have_gone_is_woken() {
    let mut engine = engine([gpu_node("n0", 8), gpu_node("n1", 4)]);
    engine.apply_queue(below("all", None, 4, Preemption::default()));
    engine.apply_queue(below("a", Some("all"), 8, RECLAIM));
    engine.apply_queue(below("b", Some("all"), 0, RECLAIM));
    engine.restore_gang(part("b", 0, "other", 8), on("n0"), seconds(0));
    engine.restore_gang(part("a", 0, "own", 4), on("n1"), seconds(0));
    // a would hold 12 of its 8.
    engine.apply_gang(part("a", 0, "mine", 8));
    assert_eq!(at(&mut engine, seconds(1)), ["-mine QuotaExceeded"]);
    engine.delete_gang(&id("own"));
    assert_eq!(at(&mut engine, seconds(2)), ["!mine other"]);
}

#[test]
fn a_queue_without_quota_that_begins_to_hold_wakes_who_owns_it() {
    let mut engine = engine([gpu_node("n0", 8), gpu_node("n1", 8)]);
    engine.apply_queue(below("team", None, 16, RECLAIM));
    pod(&mut engine, "x/f", "n0", gpu(1, 8));
    pod(&mut engine, "x/g", "n1", gpu(1, 4));
    engine.apply_gang(part("team", 0, "mine", 8));
    assert_eq!(at(&mut engine, seconds(0)), ["-mine InsufficientCapacity"]);
    engine.delete_pod(&PodKey::new("x/g"));
    engine.restore_gang(part("default", 9, "open", 8), on("n1"), seconds(1));
    assert_eq!(at(&mut engine, seconds(2)), ["!mine open"]);
}

#[test]
fn what_is_kept_within_quota_stays_where_another_may_go() {
    let mut engine = two_teams(RECLAIM);
    engine.apply_gang(part("a", 9, "may-go", 8));
    at(&mut engine, seconds(0));
    let kept = Gang {
        preemptible: false,
        ..part("a", 0, "kept", 8)
    };
    engine.apply_gang(kept.clone());
    at(&mut engine, seconds(50));
    engine.apply_gang(part("b", 0, "owner", 8));
    assert_eq!(at(&mut engine, seconds(60)), ["!owner may-go"]);
    // If both are not preemptible, one of them is beyond quota: the cheaper one leaves.
    let mut engine = two_teams(RECLAIM);
    engine.apply_gang(Gang {
        preemptible: false,
        ..part("a", 9, "too", 8)
    });
    engine.apply_gang(kept);
    assert_eq!(at(&mut engine, seconds(0)), ["+too", "+kept"]);
    engine.apply_gang(part("b", 0, "owner", 8));
    assert_eq!(at(&mut engine, seconds(60)), ["!owner kept"]);
}

#[test]
fn within_a_queue_too_what_is_kept_within_quota_stays() {
    let mut engine = by_priority(2);
    engine.apply_queue(below("all", None, 8, Preemption::default()));
    engine.apply_queue(below("q", Some("all"), 8, LOWER));
    let in_q = |gang: Gang| Gang {
        queue: QueueName::new("q"),
        ..gang
    };
    engine.apply_gang(in_q(Gang {
        preemptible: false,
        ..of(0, "kept", 1)
    }));
    engine.apply_gang(in_q(of(1, "may-go", 1)));
    assert_eq!(at(&mut engine, seconds(0)).len(), 2);
    engine.apply_gang(in_q(of(5, "high", 1)));
    assert_eq!(at(&mut engine, seconds(1)), ["!high may-go"]);
}

#[test]
fn what_lacks_is_asked_of_who_borrows_that() {
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
    engine.apply_gang(part("c", 0, "borrows-gpus", 8));
    at(&mut engine, seconds(0));
    // The gang would lose less work, and its queue borrows a core.
    engine.apply_gang(part("b", 0, "own-gpus", 8));
    at(&mut engine, seconds(100));
    pod(&mut engine, "x/f", "n02", gpu(1, 8));
    engine.apply_gang(part("a", 0, "owner", 8));
    assert_eq!(at(&mut engine, seconds(110)), ["!owner borrows-gpus"]);
}

#[test]
fn the_domain_that_costs_least_is_chosen() {
    let mut engine = by_priority(0);
    for (node, rack) in [("n0", "r1"), ("n1", "r1"), ("n2", "r2"), ("n3", "r2")] {
        engine.apply_node(label(gpu_node(node, 8), "rack", rack));
    }
    engine.apply_topology(Topology {
        name: TopologyName::new("hall"),
        levels: vec![TopologyLevel::of_label("rack")],
    });
    // At 1,000 s: 5 + 50 s of 8 GPUs are lost in r1, 30 + 40 in r2.
    engine.advance(seconds(1_000));
    for (name, node, since) in [
        ("v1", "n0", 995),
        ("v2", "n1", 950),
        ("v3", "n2", 970),
        ("v4", "n3", 960),
    ] {
        engine.restore_gang(part("default", 0, name, 8), on(node), seconds(since));
    }
    let mut high = of(5, "high", 2);
    high.topology = Some(TopologyRequest::required("rack"));
    engine.apply_gang(high);
    assert_eq!(at(&mut engine, seconds(1_000)), ["!high v1 v2"]);
}

/// The quota is taken away while the queue holds some: then all of that is borrowed.
#[test]
fn what_is_no_longer_offered_is_asked_back() {
    let mut engine = two_teams(RECLAIM);
    engine.apply_gang(part("a", 0, "held", 8));
    engine.apply_gang(part("b", 0, "own", 8));
    assert_eq!(at(&mut engine, seconds(0)), ["+held", "+own"]);
    engine.apply_queue(below("b", Some("all"), 16, RECLAIM));
    let none = Queue::new(QueueName::new("a")).with_quotas([]);
    engine.apply_queue(Queue {
        parent: Some(QueueName::new("all")),
        ..none
    });
    engine.apply_gang(part("b", 0, "more", 8));
    assert_eq!(at(&mut engine, seconds(1)), ["!more held"]);
}
