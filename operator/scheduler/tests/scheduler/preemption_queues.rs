//! Tests of reclaim from queues that borrow.

use crate::common::*;
use crate::flavors_offered::{flavored, one_of_each};
use crate::preemption::{LOWER, at, of, preempts, seconds};
use trellis_scheduler::{
    Because, BorrowWithin, Engine, FlavorName, Gang, Preemption, Queue, QueueName, Quota, Reclaim,
    ResourceName, WithinQueue,
};

pub const RECLAIM: Preemption = Preemption {
    within_queue: WithinQueue::Never,
    reclaim: Reclaim::Any,
    borrow_within: BorrowWithin::Never,
};

fn gpus(nominal: i64) -> Quota {
    Quota {
        nominal,
        ..Quota::default()
    }
}

pub fn below(name: &str, parent: Option<&str>, nominal: i64, preemption: Preemption) -> Queue {
    let plenty = gpus(i64::MAX >> 8);
    let quotas = [
        (ResourceName::new(GPU), gpus(nominal)),
        (ResourceName::new("cpu"), plenty),
    ];
    Queue {
        parent: parent.map(QueueName::new),
        preemption,
        ..Queue::new(QueueName::new(name)).with_quotas(quotas)
    }
}

/// Teams `a` and `b` own a node with 8 GPUs each, below `all`.
pub fn two_teams(preemption: Preemption) -> Engine {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(below("all", None, 0, Preemption::default()));
    engine.apply_queue(below("a", Some("all"), 8, preemption));
    engine.apply_queue(below("b", Some("all"), 8, preemption));
    engine
}

pub fn small(queue: &str, priority: i32, name: &str, pods: u32) -> Gang {
    Gang {
        priority,
        queue: QueueName::new(queue),
        ..workers(name, pods, gpu(1, 1))
    }
}

#[test]
fn a_team_takes_back_what_it_lent_and_no_more() {
    let mut engine = two_teams(RECLAIM);
    for (name, pods) in [("a1", 8), ("a2", 4), ("a3", 4)] {
        engine.apply_gang(small("a", 5, name, pods));
    }
    assert_eq!(at(&mut engine, seconds(0)), ["+a1", "+a2", "+a3"]);
    engine.apply_gang(small("b", 0, "b1", 4));
    let (_, victims) = preempts(&mut engine, seconds(5));
    assert_eq!(
        (victims.len(), victims[0].because),
        (1, Because::Borrows),
        "priority does not protect what is borrowed"
    );
    assert_ne!(victims[0].gang, id("a1"));
    // Four of its own GPUs are still lent.
    engine.apply_gang(small("b", 0, "b2", 4));
    let (_, victims) = preempts(&mut engine, seconds(6));
    assert_ne!(victims[0].gang, id("a1"));
    // Beyond its own quota it has no claim.
    engine.apply_gang(small("b", 9, "b3", 1));
    assert_eq!(at(&mut engine, seconds(7)), ["-b3 QuotaExceeded"]);
}

#[test]
fn who_was_preempted_and_borrows_preempts_nobody() {
    let both = Preemption {
        reclaim: Reclaim::Any,
        borrow_within: BorrowWithin::LowerPriority { max_priority: None },
        ..LOWER
    };
    let mut engine = two_teams(both);
    engine.apply_gang(small("a", 5, "a1", 12));
    engine.cycle(seconds(0));
    engine.apply_gang(small("b", 0, "b1", 8));
    assert_eq!(at(&mut engine, seconds(1)), ["!b1 a1"]);
    engine.release_gang(&id("a1"), None);
    assert_eq!(at(&mut engine, seconds(2)), ["+b1", "-a1 QuotaExceeded"]);
    for second in 3..9 {
        assert!(engine.cycle(seconds(second)).is_empty());
    }
}

/// Cores are idle, or 1 of the 8 that it needs is missing.
#[test]
fn gang_that_was_preempted_reclaims_what_it_lacks_and_would_not_borrow() {
    for (cores, expected) in [(100, "!again borrows"), (4, "-again QuotaExceeded")] {
        let mut engine = engine(gpu_nodes(1));
        let queue = |name: &str, parent: Option<&str>, nominal, cores: i64| {
            let mut queue = below(name, parent, nominal, RECLAIM);
            for flavor in queue
                .resource_groups
                .iter_mut()
                .flat_map(|g| &mut g.flavors)
            {
                let name = ResourceName::new("cpu");
                flavor.quotas.insert(name, gpus(cores * 1_000));
            }
            queue
        };
        engine.apply_queue(queue("all", None, 0, cores));
        engine.apply_queue(queue("a", Some("all"), 8, 4));
        engine.apply_queue(queue("b", Some("all"), 0, 0));
        let one = |queue: &str, name: &str, cores| Gang {
            queue: QueueName::new(queue),
            ..workers(name, 1, gpu(cores, 8))
        };
        engine.apply_gang(one("b", "borrows", 1));
        assert_eq!(at(&mut engine, seconds(0)), ["+borrows"]);
        engine.apply_gang(Gang {
            preempted: true,
            ..one("a", "again", 8)
        });
        assert_eq!(
            at(&mut engine, seconds(1)),
            [expected],
            "{cores} idle cores"
        );
    }
}

/// It lacks 8 GPUs, and a gang of its queue gives back 4.
#[test]
fn gang_that_was_preempted_is_woken_when_it_borrows_no_longer() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(below("all", None, 0, Preemption::default()));
    engine.apply_queue(below("a", Some("all"), 8, RECLAIM));
    engine.apply_queue(below("b", Some("all"), 8, RECLAIM));
    engine.apply_gang(small("a", 0, "own", 4));
    for name in ["b1", "b2", "b3"] {
        engine.apply_gang(small("b", 0, name, 4));
    }
    assert_eq!(at(&mut engine, seconds(0)).len(), 4);
    engine.apply_gang(Gang {
        preempted: true,
        ..small("a", 0, "again", 8)
    });
    assert_eq!(at(&mut engine, seconds(1)), ["-again QuotaExceeded"]);
    engine.delete_gang(&id("own"));
    let said = at(&mut engine, seconds(2));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("!again b"), "{said:?}");
}

#[test]
fn what_would_be_borrowed_is_taken_from_lower_priority_alone() {
    let borrow = |max_priority| Preemption {
        within_queue: WithinQueue::Never,
        reclaim: Reclaim::Never,
        borrow_within: BorrowWithin::LowerPriority { max_priority },
    };
    for (most, priority, expected) in [
        (None, 4, vec!["!a1 c1"]),
        (Some(3), 4, vec!["-a1 QuotaExceeded"]),
        (Some(4), 4, vec!["!a1 c1"]),
        (None, 5, vec!["-a1 QuotaExceeded"]),
    ] {
        let mut engine = engine(gpu_nodes(2));
        engine.apply_queue(below("all", None, 16, Preemption::default()));
        engine.apply_queue(below("a", Some("all"), 0, borrow(most)));
        engine.apply_queue(below("c", Some("all"), 0, borrow(most)));
        engine.apply_gang(small("c", priority, "c1", 12));
        engine.cycle(seconds(0));
        engine.apply_gang(small("a", 5, "a1", 8));
        assert_eq!(at(&mut engine, seconds(1)), expected);
    }
}

#[test]
fn a_queue_without_quota_guarantees_nothing() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(below("team", None, 8, RECLAIM));
    engine.apply_gang(of(9, "open", 1));
    engine.cycle(seconds(0));
    engine.apply_gang(small("team", 0, "t1", 8));
    assert_eq!(at(&mut engine, seconds(1)), ["!t1 open"]);
}

#[test]
fn what_is_kept_for_good_is_kept_within_quota_only() {
    let mut engine = two_teams(RECLAIM);
    engine.apply_gang(Gang {
        preemptible: false,
        ..small("a", 5, "a1", 12)
    });
    engine.cycle(seconds(0));
    engine.apply_gang(small("b", 0, "b1", 8));
    assert_eq!(at(&mut engine, seconds(1)), ["!b1 a1"]);
}

/// Two flavor assignments, each with a victim that is protected for a while.
#[test]
fn the_first_time_at_which_somebody_may_be_asked_wakes() {
    let mut engine = one_of_each(&["a", "b"]);
    let with = |name: &str, parent, gpus| Queue {
        preemption: RECLAIM,
        ..flavored(name, parent, &[("a", gpus), ("b", gpus)])
    };
    engine.apply_queue(with("all", None, 0));
    engine.apply_queue(with("mine", Some("all"), 8));
    for (queue, flavor, name, safe) in [("x", "a", "soon", 100), ("y", "b", "late", 1_000)] {
        engine.apply_queue(with(queue, Some("all"), 0));
        let mut gang = Gang {
            min_runtime: std::time::Duration::from_secs(safe),
            ..small(queue, 0, name, 8)
        };
        gang.groups[0].flavors = vec![FlavorName::new(flavor)];
        engine.apply_gang(gang);
    }
    assert_eq!(at(&mut engine, seconds(0)), ["+soon", "+late"]);
    engine.apply_gang(small("mine", 0, "w", 8));
    at(&mut engine, seconds(1));
    assert_eq!(engine.next_wakeup(), Some(seconds(100)));
    assert_eq!(at(&mut engine, seconds(100)), ["!w soon"]);
}

/// `preemptionPolicy: Never` is about priorities: any gang reclaims what its queue is owed.
#[test]
fn who_does_not_preempt_by_priority_takes_back_what_its_queue_is_owed() {
    let all = Preemption {
        reclaim: Reclaim::Any,
        borrow_within: BorrowWithin::LowerPriority { max_priority: None },
        ..LOWER
    };
    let never = |gang: Gang| Gang {
        preempts: false,
        ..gang
    };
    // Within its own queue.
    let mut engine = two_teams(all);
    engine.apply_gang(small("a", 0, "a1", 8));
    engine.apply_gang(small("b", 0, "b1", 8));
    engine.cycle(seconds(0));
    let high = small("a", 5, "a2", 1);
    engine.apply_gang(never(high.clone()));
    assert_eq!(at(&mut engine, seconds(1)), ["-a2 QuotaExceeded"]);
    engine.apply_gang(high);
    assert_eq!(at(&mut engine, seconds(2)), ["!a2 a1"]);

    // Quota that both queues borrow.
    let mut engine = crate::common::engine(gpu_nodes(1));
    engine.apply_queue(below("all", None, 8, Preemption::default()));
    engine.apply_queue(below("a", Some("all"), 0, all));
    engine.apply_queue(below("b", Some("all"), 0, all));
    engine.apply_gang(small("b", 0, "b1", 8));
    engine.cycle(seconds(0));
    let high = small("a", 5, "a1", 1);
    engine.apply_gang(never(high.clone()));
    assert_eq!(at(&mut engine, seconds(1)), ["-a1 QuotaExceeded"]);
    engine.apply_gang(high);
    assert_eq!(at(&mut engine, seconds(2)), ["!a1 b1"]);

    // Quota that its queue is owed.
    let mut engine = two_teams(all);
    engine.apply_gang(small("b", 9, "b1", 16));
    engine.cycle(seconds(0));
    engine.apply_gang(never(small("a", 0, "a1", 1)));
    assert_eq!(at(&mut engine, seconds(1)), ["!a1 b1"]);
}
