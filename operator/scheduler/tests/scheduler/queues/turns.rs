//! Tests of the order in which queues start gangs if more than one of them could.

use crate::common::*;
use crate::preemption::queues::RECLAIM;
use crate::preemption::{run_cycle_at, seconds};
use crate::queues::{gpu_quota, queue_below, small_gang};
use trellis_scheduler::{Engine, Gang, PreemptionPolicy, Queue, QueueName};

fn submitted_at(second: i64, gang: Gang) -> Gang {
    Gang {
        submitted: seconds(second),
        ..gang
    }
}

/// Returns an engine in which a department has 4 GPUs for the team below it. `scavenger` is beside
/// the department and has no GPUs.
fn engine_with_department() -> Engine {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(Queue::new(QueueName::new("org")));
    engine.apply_queue(queue_below("department", Some("org"), gpu_quota(4)));
    engine.apply_queue(Queue {
        parent: Some(QueueName::new("department")),
        ..Queue::new(QueueName::new("team"))
    });
    engine.apply_queue(queue_below("scavenger", Some("org"), gpu_quota(0)));
    engine
}

#[test]
fn quota_of_a_department_goes_to_its_team_before_a_borrower_from_outside() {
    let mut engine = engine_with_department();
    engine.apply_gang(small_gang("team", "runs", 4));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+runs"]);
    engine.apply_gang(submitted_at(10, small_gang("team", "guaranteed", 4)));
    engine.apply_gang(submitted_at(20, small_gang("scavenger", "borrower", 4)));
    run_cycle_at(&mut engine, seconds(30));
    engine.delete_gang(&id("runs"));
    assert_eq!(run_cycle_at(&mut engine, seconds(1_000)), ["+guaranteed"]);
}

#[test]
fn a_team_beyond_the_quota_of_its_department_borrows_like_any_queue() {
    let mut engine = engine_with_department();
    engine.apply_queue(queue_below("other", Some("org"), gpu_quota(4)));
    engine.apply_gang(small_gang("team", "runs", 4));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+runs"]);
    // The team has had 4 GPUs, and the scavenger none. Both would borrow from `other`.
    engine.apply_gang(submitted_at(10, small_gang("team", "more", 4)));
    engine.apply_gang(submitted_at(20, small_gang("scavenger", "borrower", 4)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(30)),
        ["+borrower", "-more QuotaExceeded"]
    );
}

#[test]
fn queues_with_equal_shares_start_the_older_gang_first() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(queue_below("root", None, gpu_quota(4)));
    for name in ["b", "c"] {
        engine.apply_queue(Queue {
            parent: Some(QueueName::new("root")),
            ..Queue::new(QueueName::new(name))
        });
    }
    engine.apply_gang(submitted_at(1, small_gang("c", "older", 4)));
    engine.apply_gang(submitted_at(2, small_gang("b", "newer", 4)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(3)),
        ["+older", "-newer QuotaExceeded"]
    );
}

/// The shares of `b` and of the department above `c` are equal too: the age of the
/// gang below the department counts.
#[test]
fn departments_with_equal_shares_start_the_older_gang_first() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(queue_below("root", None, gpu_quota(4)));
    for (name, parent) in [("b", "root"), ("z", "root"), ("c", "z")] {
        engine.apply_queue(Queue {
            parent: Some(QueueName::new(parent)),
            ..Queue::new(QueueName::new(name))
        });
    }
    engine.apply_gang(submitted_at(1, small_gang("c", "older", 4)));
    engine.apply_gang(submitted_at(2, small_gang("b", "newer", 4)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(3)),
        ["+older", "-newer QuotaExceeded"]
    );
}

/// A queue without quota owes all that it holds to a queue that reclaims. It must not start first
/// and then be preempted at once.
#[test]
fn a_queue_without_quota_starts_after_a_queue_that_may_reclaim_from_it() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(queue_below("root", None, gpu_quota(0)));
    engine.apply_queue(Queue {
        preemption: RECLAIM,
        ..queue_below("team", Some("root"), gpu_quota(8))
    });
    engine.apply_queue(queue("default", None));
    // `team` has past usage, `default` has none: by share `default` would be first.
    engine.apply_gang(small_gang("team", "before", 1));
    run_cycle_at(&mut engine, seconds(0));
    engine.delete_gang(&id("before"));
    run_cycle_at(&mut engine, seconds(100));
    engine.apply_gang(submitted_at(200, small_gang("default", "unlimited", 8)));
    engine.apply_gang(submitted_at(201, small_gang("team", "owed", 8)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(202)),
        ["+owed", "-unlimited InsufficientCapacity"]
    );
}

#[test]
fn queues_without_any_quota_still_take_turns_by_share() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(Queue {
        preemption: PreemptionPolicy::default(),
        ..queue("other", None)
    });
    engine.apply_gang(small_gang("default", "first", 4));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+first"]);
    engine.apply_gang(submitted_at(1, small_gang("default", "second", 4)));
    engine.apply_gang(submitted_at(2, small_gang("other", "fair", 4)));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(3)),
        ["+fair", "-second InsufficientCapacity"]
    );
}
