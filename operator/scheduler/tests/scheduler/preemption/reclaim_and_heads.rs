//! Tests that a queue gets its own quota back despite reservations for the gang at its head.

use crate::common::*;
use crate::preemption::queues::{RECLAIM, queue_below, small_gang};
use crate::preemption::{run_cycle_at, seconds};
use trellis_scheduler::{Engine, Gang, PreemptionPolicy, Queue, QueueName, Quota, ResourceName};

/// Returns an engine in which teams `a` and `b` have 16 GPUs each below `all`. `b` holds all 32
/// GPUs.
fn engine_with_lent_quota() -> Engine {
    let mut engine = engine(gpu_nodes(4));
    engine.apply_queue(queue_below("all", None, 0, PreemptionPolicy::default()));
    for team in ["a", "b"] {
        engine.apply_queue(queue_below(team, Some("all"), 16, RECLAIM));
    }
    engine.apply_gang(submitted_gang("b", 0, "borrows", 32));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+borrows"]);
    engine
}

fn submitted_gang(queue: &str, second: i64, name: &str, pods: u32) -> Gang {
    Gang {
        submitted: seconds(second),
        ..small_gang(queue, 0, name, pods)
    }
}

/// Returns the queue with this many cores of nominal quota.
fn with_cores(queue: Queue, cores: i64) -> Queue {
    let quota = Quota {
        nominal: cores * 1_000,
        ..Quota::default()
    };
    let mut queue = queue;
    for flavor in queue
        .resource_groups
        .iter_mut()
        .flat_map(|g| &mut g.flavors)
    {
        flavor.quotas.insert(ResourceName::new("cpu"), quota);
    }
    queue
}

/// Gives team `a` 4 cores besides its 16 GPUs, and `all` 92 idle cores.
fn with_few_cores(mut engine: Engine) -> Engine {
    let all = queue_below("all", None, 0, PreemptionPolicy::default());
    engine.apply_queue(with_cores(all, 92));
    for team in ["a", "b"] {
        engine.apply_queue(with_cores(queue_below(team, Some("all"), 16, RECLAIM), 4));
    }
    engine
}

#[test]
fn a_gang_within_nominal_reclaims_while_the_head_must_borrow() {
    for later in [200, 1_000, 100_000] {
        let mut engine = engine_with_lent_quota();
        engine.apply_gang(submitted_gang("a", 100, "large", 24));
        assert_eq!(
            run_cycle_at(&mut engine, seconds(100)),
            ["-large QuotaExceeded"]
        );
        engine.apply_gang(submitted_gang("a", later, "own", 8));
        assert_eq!(
            run_cycle_at(&mut engine, seconds(later)),
            ["!own borrows"],
            "{later} s"
        );
    }
}

/// The head waits for quota that another queue owns and holds. The nominal quota of the head's
/// queue must not be idle during this time.
#[test]
fn a_gang_within_nominal_starts_while_the_head_waits_for_another_queue() {
    let mut engine = engine_with_lent_quota();
    engine.delete_gang(&id("borrows"));
    engine.apply_gang(submitted_gang("b", 1, "b-own", 16));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["+b-own"]);
    engine.apply_gang(submitted_gang("a", 100, "large", 24));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(100)),
        ["-large QuotaExceeded"]
    );
    engine.apply_gang(submitted_gang("a", 1_000, "own", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(1_000)), ["+own"]);
    // Now only usage of its own queue blocks the head, so no more gangs of the queue start before
    // it.
    engine.delete_gang(&id("b-own"));
    assert_eq!(run_cycle_at(&mut engine, seconds(1_001)), ["+large"]);
}

#[test]
fn a_gang_that_borrows_idle_cores_reclaims_while_the_head_must_borrow_gpus() {
    let mut engine = with_few_cores(engine_with_lent_quota());
    engine.apply_gang(submitted_gang("a", 100, "large", 24));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(100)),
        ["-large QuotaExceeded"]
    );
    engine.apply_gang(submitted_gang("a", 1_000, "own", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(1_000)), ["!own borrows"]);
}

#[test]
fn a_gang_that_borrows_idle_cores_starts_while_the_head_waits_for_gpus_of_another_queue() {
    let mut engine = with_few_cores(engine_with_lent_quota());
    engine.delete_gang(&id("borrows"));
    engine.apply_gang(submitted_gang("b", 1, "b-own", 16));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["+b-own"]);
    engine.apply_gang(submitted_gang("a", 100, "large", 24));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(100)),
        ["-large QuotaExceeded"]
    );
    engine.apply_gang(submitted_gang("a", 1_000, "own", 8));
    assert_eq!(run_cycle_at(&mut engine, seconds(1_000)), ["+own"]);
}

/// The head needs the cores that the later gang would borrow.
#[test]
fn a_gang_leaves_the_cores_that_it_would_borrow_to_the_head() {
    let mut engine = with_few_cores(engine_with_lent_quota());
    engine.delete_gang(&id("borrows"));
    engine.apply_gang(submitted_gang("b", 1, "b-own", 16));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["+b-own"]);
    let cores = |second, name: &str, gpus, cores| Gang {
        submitted: seconds(second),
        queue: QueueName::new("a"),
        ..workers(name, 1, gpu(cores, gpus))
    };
    engine.apply_gang(cores(100, "large", 20, 80));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(100)),
        ["-large QuotaExceeded"]
    );
    engine.apply_gang(cores(1_000, "own", 8, 5));
    assert_eq!(run_cycle_at(&mut engine, seconds(1_000)), ["-own Reserved"]);
}

/// Returns an engine in which `a` holds 12 of its 16 GPUs, and `b` all of its own.
fn engine_with_running_teams() -> Engine {
    let mut engine = engine_with_lent_quota();
    engine.delete_gang(&id("borrows"));
    engine.apply_gang(submitted_gang("a", 1, "first", 12));
    engine.apply_gang(submitted_gang("b", 1, "b-own", 16));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["+first", "+b-own"]);
    engine
}

/// The head is within nominal quota after the gangs of its queue have ended, so a later gang leaves
/// it that quota.
#[test]
fn a_gang_within_nominal_waits_for_a_head_within_nominal() {
    let mut engine = engine_with_running_teams();
    // The head never gets quota of `b`.
    let mut b = queue_below("b", Some("all"), 16, RECLAIM);
    for flavor in &mut b.resource_groups[0].flavors {
        for quota in flavor.quotas.values_mut() {
            quota.lending_limit = Some(0);
        }
    }
    engine.apply_queue(b);
    engine.apply_gang(submitted_gang("a", 100, "head", 14));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(100)),
        ["-head QuotaExceeded"]
    );
    engine.apply_gang(submitted_gang("a", 1_000, "own", 4));
    assert_eq!(run_cycle_at(&mut engine, seconds(1_000)), ["-own Reserved"]);
}

/// Gangs of its own queue give quota back to the head, so a later gang leaves it that quota.
#[test]
fn gang_within_nominal_waits_for_a_head_waiting_for_their_queue() {
    let mut engine = engine_with_lent_quota();
    engine.delete_gang(&id("borrows"));
    engine.apply_gang(submitted_gang("a", 1, "first", 12));
    assert_eq!(run_cycle_at(&mut engine, seconds(1)), ["+first"]);
    engine.apply_gang(submitted_gang("a", 100, "large", 30));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(100)),
        ["-large QuotaExceeded"]
    );
    engine.apply_gang(submitted_gang("a", 1_000, "own", 4));
    assert_eq!(run_cycle_at(&mut engine, seconds(1_000)), ["-own Reserved"]);
}

/// The head has enough without the quota that `b` gives back.
#[test]
fn a_gang_within_nominal_reclaims_what_a_head_within_nominal_does_not_need() {
    let mut engine = engine_with_running_teams();
    engine.apply_gang(submitted_gang("b", 2, "b-lent", 4));
    assert_eq!(run_cycle_at(&mut engine, seconds(2)), ["+b-lent"]);
    engine.apply_gang(submitted_gang("a", 100, "head", 8));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(100)),
        ["-head QuotaExceeded"]
    );
    engine.apply_gang(submitted_gang("a", 1_000, "own", 4));
    assert_eq!(run_cycle_at(&mut engine, seconds(1_000)), ["!own b-lent"]);
}

/// The head requests no more than the quota of its department, and only gangs of its own queue
/// block it. Later gangs leave it the quota that those gangs give back.
#[test]
fn a_gang_within_nominal_waits_for_a_head_within_the_quota_of_its_department() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(queue_below("org", None, 0, PreemptionPolicy::default()));
    engine.apply_queue(queue_below(
        "department",
        Some("org"),
        4,
        PreemptionPolicy::default(),
    ));
    engine.apply_queue(queue_below("team", Some("department"), 12, RECLAIM));
    engine.apply_gang(submitted_gang("team", 0, "first", 4));
    engine.apply_gang(submitted_gang("team", 0, "second", 4));
    let mut said = run_cycle_at(&mut engine, seconds(0));
    said.sort();
    assert_eq!(said, ["+first", "+second"]);
    engine.apply_gang(submitted_gang("team", 100, "head", 14));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(100)),
        ["-head QuotaExceeded"]
    );
    engine.apply_gang(submitted_gang("team", 1_000, "later", 4));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1_000)),
        ["-later Reserved"]
    );
    engine.delete_gang(&id("first"));
    engine.delete_gang(&id("second"));
    let said = run_cycle_at(&mut engine, seconds(1_001));
    assert!(said.contains(&"+head".to_owned()), "{said:?}");
}

/// The head waits for memory that no quota gives back, on the only node.
#[test]
fn gang_within_nominal_reclaims_on_nodes_of_a_head_with_unknown_start() {
    // With 1 core of its own, team `a` would borrow 4 idle cores.
    for cores in [8, 1] {
        let mut engine = engine([gpu_node("n0", 8)]);
        let all = queue_below("all", None, 0, PreemptionPolicy::default());
        engine.apply_queue(with_cores(all, 88));
        for (team, nominal) in [("a", 8), ("b", 0)] {
            let mut team = with_cores(queue_below(team, Some("all"), nominal, RECLAIM), cores);
            let memory = Quota {
                nominal: 1 << 60,
                ..Quota::default()
            };
            for flavor in team.resource_groups.iter_mut().flat_map(|g| &mut g.flavors) {
                flavor.quotas.insert(ResourceName::new("memory"), memory);
            }
            engine.apply_queue(team);
        }
        let one = |queue: &str, second: i64, name: &str, gpus: i64, gib: i64| Gang {
            submitted: seconds(second),
            queue: QueueName::new(queue),
            ..workers(name, 1, gpu(4, gpus).with("memory", gib * GI))
        };
        engine.apply_gang(one("b", 0, "borrows", 8, 1_000));
        assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+borrows"]);
        engine.apply_gang(one("a", 100, "memory", 0, 500));
        assert_eq!(
            run_cycle_at(&mut engine, seconds(100)),
            ["-memory InsufficientCapacity"]
        );
        engine.apply_gang(one("a", 110, "own", 8, 500));
        assert_eq!(
            run_cycle_at(&mut engine, seconds(110)),
            ["!own borrows"],
            "{cores} cores"
        );
    }
}

/// The head requests no more than the nominal quota of its queue. An older gang of the queue holds
/// part of it.
#[test]
fn a_borrower_leaves_quota_to_a_head_that_asks_for_no_more_than_nominal() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(queue_below("all", None, 0, PreemptionPolicy::default()));
    engine.apply_queue(queue_below("a", Some("all"), 2, RECLAIM));
    engine.apply_queue(queue_below(
        "b",
        Some("all"),
        0,
        PreemptionPolicy::default(),
    ));
    engine.apply_gang(submitted_gang("a", 0, "runs", 1));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+runs"]);
    engine.apply_gang(submitted_gang("a", 600, "head", 2));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(600)),
        ["-head QuotaExceeded"]
    );
    let borrower = Gang {
        preemptible: false,
        ..submitted_gang("b", 900, "borrower", 1)
    };
    engine.apply_gang(borrower);
    assert_eq!(
        run_cycle_at(&mut engine, seconds(900)),
        ["-borrower Reserved"]
    );
    engine.delete_gang(&id("runs"));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1_000)),
        ["+head", "-borrower QuotaExceeded"]
    );
}

/// The engine reserves room for the head of `a`, which must borrow. The turn of `default`, which
/// has no quota, comes before the head's turn, so its gang may use that room. `own` may not use it,
/// and would reclaim it.
#[test]
fn gang_gets_room_that_it_would_reclaim_in_the_same_cycle() {
    let mut engine = engine([gpu_node("n0", 4), gpu_node("n1", 1)]);
    engine.apply_queue(queue_below("all", None, 4, PreemptionPolicy::default()));
    engine.apply_queue(queue_below("a", Some("all"), 5, RECLAIM));
    engine.apply_gang(submitted_gang("a", 0, "one", 1));
    engine.apply_gang(submitted_gang("a", 0, "two", 1));
    assert_eq!(run_cycle_at(&mut engine, seconds(0)), ["+one", "+two"]);
    let one = |queue: &str, second: i64, name: &str, gpus: i64| Gang {
        submitted: seconds(second),
        queue: QueueName::new(queue),
        ..workers(name, 1, gpu(1, gpus))
    };
    engine.apply_gang(one("a", 100, "head", 4));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(100)),
        ["-head InsufficientCapacity"]
    );
    engine.apply_gang(one("default", 1_000, "guest", 3));
    engine.apply_gang(one("a", 1_000, "own", 3));
    assert_eq!(
        run_cycle_at(&mut engine, seconds(1_000)),
        ["+own", "-guest InsufficientCapacity"]
    );
    assert!(engine.cycle(seconds(1_001)).is_empty());
}
