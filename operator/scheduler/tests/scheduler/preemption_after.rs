//! What becomes of those who leave, and of the one who follows them.

use crate::common::*;
use crate::preemption::{at, by_priority, gone, of, preempts, seconds, see};
use crate::preemption_queues::{RECLAIM, small, two_teams};
use trellis_scheduler::{
    Gang, GroupName, NodeName, Placement, PodKey, Queue, QueueName, ResourceName, Stop,
};

#[test]
fn a_drained_queue_lets_go_of_everything() {
    let mut engine = by_priority(2);
    engine.apply_gang(Gang {
        preemptible: false,
        ..of(0, "one", 1)
    });
    engine.apply_gang(of(1, "two", 1));
    engine.cycle(seconds(0));
    engine.apply_queue(Queue {
        stop: Stop::HoldAndDrain,
        ..Queue::new(QueueName::new("default"))
    });
    assert_eq!(at(&mut engine, seconds(1)), ["~one", "~two"]);
    engine.release_gang(&id("one"), None);
    assert_eq!(at(&mut engine, seconds(2)), ["-one QueueStopped"]);
    assert_eq!(free(&engine, "n01", GPU), 8);
    engine.apply_queue(Queue::new(QueueName::new("default")));
    assert_eq!(at(&mut engine, seconds(3)), ["+one"]);
}

#[test]
fn a_victim_that_stays_after_all_has_its_quota_and_is_left_alone() {
    let mut engine = two_teams(RECLAIM);
    engine.apply_gang(small("a", 0, "a1", 12));
    engine.cycle(seconds(0));
    engine.apply_gang(small("b", 0, "b1", 8));
    assert_eq!(at(&mut engine, seconds(1)), ["!b1 a1"]);
    assert!(engine.queue_usage(&QueueName::new("a")).is_empty());
    engine.release_gang(&id("b1"), None);
    engine.stay(&id("a1"), seconds(30));
    assert_eq!(
        engine.queue_usage(&QueueName::new("a"))[&ResourceName::new(GPU)],
        12
    );
    assert_eq!(at(&mut engine, seconds(2)), ["-b1 QuotaExceeded"]);
    assert_eq!(engine.next_wakeup(), Some(seconds(30)));
    assert_eq!(at(&mut engine, seconds(30)), ["!b1 a1"]);
}

#[test]
fn a_place_that_is_lost_while_it_is_waited_for_is_sought_anew() {
    let mut engine = by_priority(3);
    for name in ["a", "b", "c"] {
        engine.apply_gang(of(0, name, 1));
    }
    engine.cycle(seconds(0));
    engine.apply_gang(of(1, "high", 1));
    let (place, victims) = preempts(&mut engine, seconds(1));
    let node = place.iter().next().unwrap().2.clone();
    engine.delete_node(&node);
    // Its node is gone: another is made free, the first victim goes on leaving.
    let (next, others) = preempts(&mut engine, seconds(2));
    assert_ne!(next.iter().next().unwrap().2, &node);
    assert_ne!(others[0].gang, victims[0].gang);
}

#[test]
fn someone_else_on_the_place_does_not_hold_it_up_for_ever() {
    let mut engine = by_priority(1);
    let low = of(0, "low", 1);
    engine.apply_gang(low.clone());
    engine.cycle(seconds(0));
    see(&mut engine, &low);
    engine.apply_gang(of(1, "high", 1));
    preempts(&mut engine, seconds(1));
    engine.apply_pod(PodKey::new("x/foreign"), NodeName::new("n00"), gpu(1, 2));
    engine.release_gang(&id("low"), None);
    assert_eq!(at(&mut engine, seconds(2)), ["-low InsufficientCapacity"]);
    gone(&mut engine, &low);
    assert_eq!(at(&mut engine, seconds(3)), ["-high InsufficientCapacity"]);
    engine.delete_pod(&PodKey::new("x/foreign"));
    assert_eq!(at(&mut engine, seconds(4)), ["+high"]);
}

#[test]
fn a_new_leader_goes_on_with_what_was_nominated() {
    let mut engine = by_priority(1);
    let low = of(0, "low", 1);
    let high = of(1, "high", 1);
    let place: Placement = [(GroupName::new("worker"), vec![(NodeName::new("n00"), 1)])]
        .into_iter()
        .collect();
    engine.advance(seconds(9));
    engine.restore_gang(low.clone(), place.clone(), seconds(0));
    engine.restore_nomination(high, place, &[id("low"), id("unknown")]);
    assert!(engine.cycle(seconds(10)).is_empty());
    engine.delete_gang(&id("low"));
    assert_eq!(at(&mut engine, seconds(11)), ["+high"]);
}

#[test]
fn a_trial_tells_who_would_leave_and_leaves_no_trace() {
    let mut engine = by_priority(1);
    engine.apply_gang(of(0, "low", 1));
    engine.cycle(seconds(0));
    let high = of(1, "high", 1);
    let first = engine.trial(&high, seconds(1)).unwrap();
    assert_eq!(first.victims[0].gang, id("low"));
    assert_eq!(engine.trial(&high, seconds(1)).unwrap(), first);
    assert_eq!(free(&engine, "n00", GPU), 0);
    assert!(engine.cycle(seconds(1)).is_empty());
}
