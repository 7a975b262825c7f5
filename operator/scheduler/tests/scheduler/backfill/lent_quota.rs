//! Tests that borrowers give lent quota back. A borrower comes after a gang that waits for its
//! queue's own quota, also in time.

use std::time::Duration;

use crate::backfill::runs::{SimulatedGang, run_jobs};
use crate::backfill::{MINUTE, cycle_at, gpu_gang, submitted_at, with_runtime};
use crate::common::*;
use crate::queues::{gpu_quota, queue_below};
use trellis_scheduler::{Engine, Gang, QueueName};

fn in_queue(queue: &str, gang: Gang) -> Gang {
    Gang {
        queue: QueueName::new(queue),
        ..gang
    }
}

/// Returns an engine with three queues under one root: `a` has 8 of 16 GPUs, and `b` and `c` have
/// no quota. No queue preempts.
fn engine_with_lent_quota(nodes: usize) -> Engine {
    let mut engine = engine(gpu_nodes(nodes));
    engine.apply_queue(queue_below("root", None, gpu_quota(8)));
    engine.apply_queue(queue_below("a", Some("root"), gpu_quota(8)));
    for name in ["b", "c"] {
        engine.apply_queue(queue_below(name, Some("root"), gpu_quota(0)));
    }
    engine
}

/// Small gangs keep coming, and would at once borrow again each piece of quota that becomes free.
#[test]
fn gang_waiting_for_its_own_quota_is_not_starved_by_borrowers() {
    for told in [Some(5), None] {
        let mut engine = engine_with_lent_quota(2);
        let mut jobs: Vec<SimulatedGang> = Vec::new();
        for i in 0..600 {
            let comes = i * MINUTE / 4;
            let queue = ["b", "c"][usize::try_from(i % 2).unwrap()];
            let small = in_queue(queue, gpu_gang(&format!("s{i:04}"), 1, told));
            jobs.push(SimulatedGang {
                gang: Gang {
                    submitted: ms(comes),
                    ..small
                },
                arrives_at: comes,
                runs_for: 5 * MINUTE,
            });
        }
        for (name, comes) in [("first", 20), ("second", 21)] {
            jobs.push(SimulatedGang {
                gang: submitted_at(comes, in_queue("a", gpu_gang(name, 8, told))),
                arrives_at: comes * MINUTE,
                runs_for: 5 * MINUTE,
            });
        }
        let story = run_jobs(&mut engine, jobs, 150 * MINUTE);
        let started = |name: &str| story.started.get(&id(name)).map(|at| at / MINUTE);
        let (first, second) = (started("first"), started("second"));
        assert!(first.is_some_and(|at| at <= 36), "{told:?}: {first:?}");
        assert!(second.is_some_and(|at| at <= 52), "{told:?}: {second:?}");
        assert!(story.started.len() > 200, "{}", story.started.len());
    }
}

#[test]
fn borrower_may_pass_an_owner_if_it_ends_in_time() {
    let mut engine = engine_with_lent_quota(3);
    engine.apply_gang(in_queue("b", gpu_gang("long", 8, Some(60))));
    engine.apply_gang(in_queue("b", gpu_gang("short", 4, Some(10))));
    cycle_at(&mut engine, 0);
    engine.apply_gang(submitted_at(
        1,
        in_queue("a", with_runtime(workers("owner", 1, gpu(1, 8)), Some(10))),
    ));
    engine.apply_gang(submitted_at(
        2,
        in_queue("c", gpu_gang("in-time", 2, Some(8))),
    ));
    engine.apply_gang(submitted_at(2, in_queue("c", gpu_gang("late", 2, Some(9)))));
    engine.apply_gang(submitted_at(2, in_queue("c", workers("cores", 1, cpu(1)))));
    let mut expected = vec!["+cores", "+in-time"];
    expected.extend(["-owner QuotaExceeded", "-late Reserved"]);
    assert_eq!(cycle_at(&mut engine, 2), expected);
    assert_eq!(
        engine.explanation(&id("late")).unwrap().to_string(),
        "there is quota, but \"team/owner\" waits before it in queue \"a\": \
         that is expected to start at 1970-01-01T00:10:00Z"
    );
    engine.delete_gang(&id("owner"));
    assert_eq!(cycle_at(&mut engine, 3), ["+late"]);
}

/// Team `a` holds its own 8 GPUs. Its next gang needs 8 of its department `d`, which `c` of another
/// department borrows.
#[test]
fn quota_of_a_department_is_left_to_a_team_that_holds_its_own() {
    let mut engine = engine(gpu_nodes(4));
    engine.apply_queue(queue_below("root", None, gpu_quota(0)));
    for (name, parent, quota) in [
        ("d", "root", 8),
        ("a", "d", 8),
        ("e", "root", 8),
        ("c", "e", 8),
    ] {
        engine.apply_queue(queue_below(name, Some(parent), gpu_quota(quota)));
    }
    let of = |queue: &str, name: &str, gpus| in_queue(queue, gpu_gang(name, gpus, None));
    for number in 0..6 {
        engine.apply_gang(of("c", &format!("c{number}"), 4));
    }
    cycle_at(&mut engine, 0);
    engine.apply_gang(submitted_at(1, of("a", "own", 8)));
    cycle_at(&mut engine, 1);
    engine.apply_gang(submitted_at(2, of("a", "head", 8)));
    cycle_at(&mut engine, 2);
    engine.delete_gang(&id("c5"));
    let small = Gang {
        preemptible: false,
        ..of("c", "small", 4)
    };
    engine.apply_gang(submitted_at(3, small));
    let said = cycle_at(&mut engine, 3);
    assert_eq!(said, ["-small Reserved"]);
}

/// The gang would borrow itself. The engine decides whose turn it is when quota is free.
#[test]
fn pending_borrower_does_not_block_other_borrowers() {
    let mut engine = engine_with_lent_quota(3);
    engine.apply_gang(in_queue("b", gpu_gang("runs", 12, Some(60))));
    engine.apply_gang(in_queue(
        "b",
        with_runtime(workers("two", 2, gpu(1, 6)), Some(60)),
    ));
    cycle_at(&mut engine, 0);
    engine.apply_gang(submitted_at(
        1,
        in_queue("a", workers("wants", 2, gpu(1, 8))),
    ));
    engine.apply_gang(submitted_at(2, in_queue("c", gpu_gang("small", 2, None))));
    let said = cycle_at(&mut engine, 2);
    assert!(said.contains(&"+small".to_owned()), "{said:?}");
}

/// The grace period counts as runtime, and a leaving gang ends with its grace period.
#[test]
fn borrower_with_a_late_end_does_not_pass_the_owner() {
    let mut engine = engine_with_lent_quota(3);
    engine.apply_gang(in_queue("b", gpu_gang("runs", 6, Some(10))));
    engine.apply_gang(in_queue("b", gpu_gang("rest", 6, None)));
    cycle_at(&mut engine, 0);
    engine.apply_gang(submitted_at(
        1,
        in_queue("a", gpu_gang("owner", 8, Some(10))),
    ));
    let mut graceful = submitted_at(2, in_queue("c", gpu_gang("graceful", 3, Some(8))));
    graceful.grace = Duration::from_secs(1);
    engine.apply_gang(graceful);
    let said = cycle_at(&mut engine, 2);
    assert!(said.contains(&"-graceful Reserved".to_owned()), "{said:?}");
    engine.apply_gang(submitted_at(
        3,
        in_queue("c", gpu_gang("in-time", 3, Some(7))),
    ));
    let said = cycle_at(&mut engine, 3);
    assert!(said.contains(&"+in-time".to_owned()), "{said:?}");
}
