//! The order in which queues start gangs when more than one of them could.

use crate::common::*;
use crate::preemption::{at, seconds};
use crate::preemption_queues::RECLAIM;
use crate::queues::{below, gpus, small};
use trellis_scheduler::{Engine, Gang, Preemption, Queue, QueueName};

fn submitted(second: i64, gang: Gang) -> Gang {
    Gang {
        submitted: seconds(second),
        ..gang
    }
}

/// A department has 4 GPUs for the team below it. `scavenger` is beside the department and has
/// none.
fn department() -> Engine {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(Queue::new(QueueName::new("org")));
    engine.apply_queue(below("department", Some("org"), gpus(4)));
    engine.apply_queue(Queue {
        parent: Some(QueueName::new("department")),
        ..Queue::new(QueueName::new("team"))
    });
    engine.apply_queue(below("scavenger", Some("org"), gpus(0)));
    engine
}

#[test]
fn quota_of_a_department_goes_to_its_team_before_a_borrower_from_outside() {
    let mut engine = department();
    engine.apply_gang(small("team", "runs", 4));
    assert_eq!(at(&mut engine, seconds(0)), ["+runs"]);
    engine.apply_gang(submitted(10, small("team", "guaranteed", 4)));
    engine.apply_gang(submitted(20, small("scavenger", "borrower", 4)));
    at(&mut engine, seconds(30));
    engine.delete_gang(&id("runs"));
    assert_eq!(at(&mut engine, seconds(1_000)), ["+guaranteed"]);
}

#[test]
fn a_team_beyond_the_quota_of_its_department_borrows_like_any_queue() {
    let mut engine = department();
    engine.apply_queue(below("other", Some("org"), gpus(4)));
    engine.apply_gang(small("team", "runs", 4));
    assert_eq!(at(&mut engine, seconds(0)), ["+runs"]);
    // The team has had 4 GPUs, the scavenger nothing: both would borrow from `other`.
    engine.apply_gang(submitted(10, small("team", "more", 4)));
    engine.apply_gang(submitted(20, small("scavenger", "borrower", 4)));
    assert_eq!(
        at(&mut engine, seconds(30)),
        ["+borrower", "-more QuotaExceeded"]
    );
}

#[test]
fn queues_with_equal_shares_start_the_older_gang_first() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(below("root", None, gpus(4)));
    for name in ["b", "c"] {
        engine.apply_queue(Queue {
            parent: Some(QueueName::new("root")),
            ..Queue::new(QueueName::new(name))
        });
    }
    engine.apply_gang(submitted(1, small("c", "older", 4)));
    engine.apply_gang(submitted(2, small("b", "newer", 4)));
    assert_eq!(
        at(&mut engine, seconds(3)),
        ["+older", "-newer QuotaExceeded"]
    );
}

/// The shares of `b` and of the department above `c` are equal too: the age of the
/// gang below the department counts.
#[test]
fn departments_with_equal_shares_start_the_older_gang_first() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(below("root", None, gpus(4)));
    for (name, parent) in [("b", "root"), ("z", "root"), ("c", "z")] {
        engine.apply_queue(Queue {
            parent: Some(QueueName::new(parent)),
            ..Queue::new(QueueName::new(name))
        });
    }
    engine.apply_gang(submitted(1, small("c", "older", 4)));
    engine.apply_gang(submitted(2, small("b", "newer", 4)));
    assert_eq!(
        at(&mut engine, seconds(3)),
        ["+older", "-newer QuotaExceeded"]
    );
}

/// A queue without quota owes all that it holds to a queue that reclaims: it must not
/// start first and be preempted at once.
#[test]
fn a_queue_without_quota_starts_after_a_queue_that_may_reclaim_from_it() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(below("root", None, gpus(0)));
    engine.apply_queue(Queue {
        preemption: RECLAIM,
        ..below("team", Some("root"), gpus(8))
    });
    engine.apply_queue(queue("default", None));
    // `team` has past usage, `default` has none: by share `default` would be first.
    engine.apply_gang(small("team", "before", 1));
    at(&mut engine, seconds(0));
    engine.delete_gang(&id("before"));
    at(&mut engine, seconds(100));
    engine.apply_gang(submitted(200, small("default", "unlimited", 8)));
    engine.apply_gang(submitted(201, small("team", "owed", 8)));
    assert_eq!(
        at(&mut engine, seconds(202)),
        ["+owed", "-unlimited InsufficientCapacity"]
    );
}

#[test]
fn queues_without_any_quota_still_take_turns_by_share() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(Queue {
        preemption: Preemption::default(),
        ..queue("other", None)
    });
    engine.apply_gang(small("default", "first", 4));
    assert_eq!(at(&mut engine, seconds(0)), ["+first"]);
    engine.apply_gang(submitted(1, small("default", "second", 4)));
    engine.apply_gang(submitted(2, small("other", "fair", 4)));
    assert_eq!(
        at(&mut engine, seconds(3)),
        ["+fair", "-second InsufficientCapacity"]
    );
}
