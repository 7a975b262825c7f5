//! Tests of reclaim from queues that borrow.

use crate::common::*;
use crate::flavors::offered::{engine_with_one_node_per_flavor, queue_with_flavors};
use crate::preemption::{LOWER, expect_preemption, priority_gang, run_cycle_at, seconds};
use trellis_scheduler::{
    BorrowWithinPolicy, Engine, FlavorName, Gang, PreemptionPolicy, PreemptionReason, Queue,
    QueueName, Quota, ReclaimPolicy, ResourceName, WithinQueuePolicy,
};

pub const RECLAIM: PreemptionPolicy = PreemptionPolicy {
    within_queue: WithinQueuePolicy::Never,
    reclaim: ReclaimPolicy::Any,
    borrow_within: BorrowWithinPolicy::Never,
};

fn gpu_quota(nominal: i64) -> Quota {
    Quota {
        nominal,
        ..Quota::default()
    }
}

pub fn queue_below(
    name: &str,
    parent: Option<&str>,
    nominal: i64,
    preemption: PreemptionPolicy,
) -> Queue {
    let plenty = gpu_quota(i64::MAX >> 8);
    let quotas = [
        (ResourceName::new(GPU), gpu_quota(nominal)),
        (ResourceName::new("cpu"), plenty),
    ];
    Queue {
        parent: parent.map(QueueName::new),
        preemption,
        ..Queue::new(QueueName::new(name)).with_quotas(quotas)
    }
}

/// Returns an engine in which teams `a` and `b` below `all` own a node with 8 GPUs each.
pub fn engine_with_two_teams(preemption: PreemptionPolicy) -> Engine {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(queue_below("all", None, 0, PreemptionPolicy::default()));
    engine.apply_queue(queue_below("a", Some("all"), 8, preemption));
    engine.apply_queue(queue_below("b", Some("all"), 8, preemption));
    engine
}

pub fn small_gang(queue: &str, priority: i32, name: &str, pods: u32) -> Gang {
    Gang {
        priority,
        queue: QueueName::new(queue),
        ..workers(name, pods, gpu(1, 1))
    }
}

#[test]
fn team_reclaims_its_lent_quota_and_no_more() {
    let mut engine = engine_with_two_teams(RECLAIM);
    for (name, pods) in [("a1", 8), ("a2", 4), ("a3", 4)] {
        engine.apply_gang(small_gang("a", 5, name, pods));
    }
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+a1", "+a2", "+a3"]);
    engine.apply_gang(small_gang("b", 0, "b1", 4));
    let (_, victims) = expect_preemption(&mut engine, seconds(5));
    assert_eq!(
        (victims.len(), victims[0].reason),
        (1, PreemptionReason::Borrows),
        "priority does not protect what is borrowed"
    );
    assert_ne!(victims[0].gang, id("a1"));
    // The queue still lends four of its own GPUs.
    engine.apply_gang(small_gang("b", 0, "b2", 4));
    let (_, victims) = expect_preemption(&mut engine, seconds(6));
    assert_ne!(victims[0].gang, id("a1"));
    // The queue has no claim beyond its own quota.
    engine.apply_gang(small_gang("b", 9, "b3", 1));
    assert_eq!(run_cycle_at(&mut engine, seconds(7)), ["-b3 QuotaExceeded"]);
}

#[test]
fn preempted_gang_that_borrows_preempts_no_gang() {
    let both = PreemptionPolicy {
        reclaim: ReclaimPolicy::Any,
        borrow_within: BorrowWithinPolicy::LowerPriority { max_priority: None },
        ..LOWER
    };
    let mut engine = engine_with_two_teams(both);
    engine.apply_gang(small_gang("a", 5, "a1", 12));
    engine.cycle(seconds(0));
    engine.apply_gang(small_gang("b", 0, "b1", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!b1 a1"]);
    engine.release_gang(&id("a1"), None);
    assert_eq!(
        run_cycle_at(&mut engine, seconds(2)),
        ["+b1", "-a1 QuotaExceeded"]
    );
    for second in 3..9 {
        assert!(engine.cycle(seconds(second)).is_empty());
    }
}

/// Cores are idle, or 1 of the 8 cores that the gang needs is missing.
#[test]
fn preempted_gang_reclaims_missing_quota_that_it_would_not_borrow() {
    for (cores, expected) in [(100, "!again borrows"), (4, "-again QuotaExceeded")] {
        let mut engine = engine(gpu_nodes(1));
        let queue = |name: &str, parent: Option<&str>, nominal, cores: i64| {
            let mut queue = queue_below(name, parent, nominal, RECLAIM);
            for flavor in queue
                .resource_groups
                .iter_mut()
                .flat_map(|g| &mut g.flavors)
            {
                let name = ResourceName::new("cpu");
                flavor.quotas.insert(name, gpu_quota(cores * 1_000));
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
        assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+borrows"]);
        engine.apply_gang(Gang {
            preempted: true,
            ..one("a", "again", 8)
        });
        assert_eq!(
            run_cycle_at(&mut engine, seconds(1)),
            [expected],
            "{cores} idle cores"
        );
    }
}

/// The gang lacks 8 GPUs, and a gang of its queue gives back 4.
#[test]
fn preempted_gang_wakes_when_it_no_longer_borrows() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(queue_below("all", None, 0, PreemptionPolicy::default()));
    engine.apply_queue(queue_below("a", Some("all"), 8, RECLAIM));
    engine.apply_queue(queue_below("b", Some("all"), 8, RECLAIM));
    engine.apply_gang(small_gang("a", 0, "own", 4));
    for name in ["b1", "b2", "b3"] {
        engine.apply_gang(small_gang("b", 0, name, 4));
    }
    assert_eq!(run_cycle_at(&mut engine, seconds(0)).len(), 4);
    engine.apply_gang(Gang {
        preempted: true,
        ..small_gang("a", 0, "again", 8)
    });
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1)),
        ["-again QuotaExceeded"]
    );
    engine.delete_gang(&id("own"));
    let said = run_cycle_at(&mut engine, seconds(2));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("!again b"), "{said:?}");
}

#[test]
fn borrower_preempts_other_borrowers_of_lower_priority_only() {
    let borrow = |max_priority| PreemptionPolicy {
        within_queue: WithinQueuePolicy::Never,
        reclaim: ReclaimPolicy::Never,
        borrow_within: BorrowWithinPolicy::LowerPriority { max_priority },
    };
    for (most, priority, expected) in [
        (None, 4, vec!["!a1 c1"]),
        (Some(3), 4, vec!["-a1 QuotaExceeded"]),
        (Some(4), 4, vec!["!a1 c1"]),
        (None, 5, vec!["-a1 QuotaExceeded"]),
    ] {
        let mut engine = engine(gpu_nodes(2));
        engine.apply_queue(queue_below("all", None, 16, PreemptionPolicy::default()));
        engine.apply_queue(queue_below("a", Some("all"), 0, borrow(most)));
        engine.apply_queue(queue_below("c", Some("all"), 0, borrow(most)));
        engine.apply_gang(small_gang("c", priority, "c1", 12));
        engine.cycle(seconds(0));
        engine.apply_gang(small_gang("a", 5, "a1", 8));
        assert_eq!(run_cycle_at(&mut engine, seconds(1)), expected);
    }
}

#[test]
fn queue_without_quota_has_no_guarantee() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(queue_below("team", None, 8, RECLAIM));
    engine.apply_gang(priority_gang(9, "open", 1));
    engine.cycle(seconds(0));
    engine.apply_gang(small_gang("team", 0, "t1", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!t1 open"]);
}

#[test]
fn non_preemptible_gang_beyond_quota_is_a_victim() {
    let mut engine = engine_with_two_teams(RECLAIM);
    engine.apply_gang(Gang {
        preemptible: false,
        ..small_gang("a", 5, "a1", 12)
    });
    engine.cycle(seconds(0));
    engine.apply_gang(small_gang("b", 0, "b1", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!b1 a1"]);
}

/// There are two flavor assignments, each with a victim that is protected for some time.
#[test]
fn gang_wakes_at_the_first_end_of_a_victims_protection() {
    let mut engine = engine_with_one_node_per_flavor(&["a", "b"]);
    let with = |name: &str, parent, gpus| Queue {
        preemption: RECLAIM,
        ..queue_with_flavors(name, parent, &[("a", gpus), ("b", gpus)])
    };
    engine.apply_queue(with("all", None, 0));
    engine.apply_queue(with("mine", Some("all"), 8));
    for (queue, flavor, name, safe) in [("x", "a", "soon", 100), ("y", "b", "late", 1_000)] {
        engine.apply_queue(with(queue, Some("all"), 0));
        let mut gang = Gang {
            min_runtime: std::time::Duration::from_secs(safe),
            ..small_gang(queue, 0, name, 8)
        };
        gang.groups[0].flavors = vec![FlavorName::new(flavor)];
        engine.apply_gang(gang);
    }
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+soon", "+late"]);
    engine.apply_gang(small_gang("mine", 0, "w", 8));
    run_cycle_at(&mut engine, seconds(1));
    assert_eq!(engine.next_wakeup(), Some(seconds(100)));
    assert_eq!(run_cycle_at(&mut engine, seconds(100)), ["!w soon"]);
}

/// `preemptionPolicy: Never` applies to priorities. Every gang reclaims quota owed to its queue.
#[test]
fn gang_that_does_not_preempt_reclaims_quota_owed_to_its_queue() {
    let all = PreemptionPolicy {
        reclaim: ReclaimPolicy::Any,
        borrow_within: BorrowWithinPolicy::LowerPriority { max_priority: None },
        ..LOWER
    };
    let never = |gang: Gang| Gang {
        preempts: false,
        ..gang
    };
    // Within its own queue.
    let mut engine = engine_with_two_teams(all);
    engine.apply_gang(small_gang("a", 0, "a1", 8));
    engine.apply_gang(small_gang("b", 0, "b1", 8));
    engine.cycle(seconds(0));
    let high = small_gang("a", 5, "a2", 1);
    engine.apply_gang(never(high.clone()));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["-a2 QuotaExceeded"]);
    engine.apply_gang(high);
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["!a2 a1"]);

    // Quota that both queues borrow.
    let mut engine = crate::common::engine(gpu_nodes(1));
    engine.apply_queue(queue_below("all", None, 8, PreemptionPolicy::default()));
    engine.apply_queue(queue_below("a", Some("all"), 0, all));
    engine.apply_queue(queue_below("b", Some("all"), 0, all));
    engine.apply_gang(small_gang("b", 0, "b1", 8));
    engine.cycle(seconds(0));
    let high = small_gang("a", 5, "a1", 1);
    engine.apply_gang(never(high.clone()));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["-a1 QuotaExceeded"]);
    engine.apply_gang(high);
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["!a1 b1"]);

    // Quota owed to its queue.
    let mut engine = engine_with_two_teams(all);
    engine.apply_gang(small_gang("b", 9, "b1", 16));
    engine.cycle(seconds(0));
    engine.apply_gang(never(small_gang("a", 0, "a1", 1)));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["!a1 b1"]);
}
