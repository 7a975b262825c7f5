//! Tests that lent quota is given back: a borrower comes after a gang that waits for its queue's
//! own quota, also in time.

use std::time::Duration;

use crate::backfill::{MINUTE, at, cycle_at, part, running};
use crate::backfill_runs::{Job, run};
use crate::common::*;
use crate::queues::{below, gpus};
use trellis_scheduler::{Engine, Gang, QueueName};

fn of(queue: &str, gang: Gang) -> Gang {
    Gang {
        queue: QueueName::new(queue),
        ..gang
    }
}

/// Under one root `a` has 8 of 16 GPUs, `b` and `c` have none of their own, and no gang is
/// preempted.
fn lent(nodes: usize) -> Engine {
    let mut engine = engine(gpu_nodes(nodes));
    engine.apply_queue(below("root", None, gpus(8)));
    engine.apply_queue(below("a", Some("root"), gpus(8)));
    for name in ["b", "c"] {
        engine.apply_queue(below(name, Some("root"), gpus(0)));
    }
    engine
}

/// Small gangs keep coming, and would borrow again at once what becomes free piece by piece.
#[test]
fn who_waits_for_its_own_quota_is_not_starved_by_those_who_borrow() {
    for told in [Some(5), None] {
        let mut engine = lent(2);
        let mut jobs: Vec<Job> = Vec::new();
        for i in 0..600 {
            let comes = i * MINUTE / 4;
            let queue = ["b", "c"][usize::try_from(i % 2).unwrap()];
            let small = of(queue, part(&format!("s{i:04}"), 1, told));
            jobs.push(Job {
                gang: Gang {
                    submitted: ms(comes),
                    ..small
                },
                comes,
                runs: 5 * MINUTE,
            });
        }
        for (name, comes) in [("first", 20), ("second", 21)] {
            jobs.push(Job {
                gang: at(comes, of("a", part(name, 8, told))),
                comes: comes * MINUTE,
                runs: 5 * MINUTE,
            });
        }
        let story = run(&mut engine, jobs, 150 * MINUTE);
        let started = |name: &str| story.started.get(&id(name)).map(|at| at / MINUTE);
        let (first, second) = (started("first"), started("second"));
        assert!(first.is_some_and(|at| at <= 36), "{told:?}: {first:?}");
        assert!(second.is_some_and(|at| at <= 52), "{told:?}: {second:?}");
        assert!(story.started.len() > 200, "{}", story.started.len());
    }
}

#[test]
fn who_borrows_may_pass_an_owner_if_it_gives_back_in_time() {
    let mut engine = lent(3);
    engine.apply_gang(of("b", part("long", 8, Some(60))));
    engine.apply_gang(of("b", part("short", 4, Some(10))));
    cycle_at(&mut engine, 0);
    engine.apply_gang(at(
        1,
        of("a", running(workers("owner", 1, gpu(1, 8)), Some(10))),
    ));
    engine.apply_gang(at(2, of("c", part("in-time", 2, Some(8)))));
    engine.apply_gang(at(2, of("c", part("late", 2, Some(9)))));
    engine.apply_gang(at(2, of("c", workers("cores", 1, cpu(1)))));
    let mut expected = vec!["+cores", "+in-time"];
    expected.extend(["-owner QuotaExceeded", "-late Reserved"]);
    assert_eq!(cycle_at(&mut engine, 2), expected);
    assert_eq!(
        engine.certificate(&id("late")).unwrap().to_string(),
        "there is quota, but \"team/owner\" waits before it in queue \"a\": \
         that is expected to start at 1970-01-01T00:10:00Z"
    );
    engine.delete_gang(&id("owner"));
    assert_eq!(cycle_at(&mut engine, 3), ["+late"]);
}

/// The gang would borrow itself: whose turn it is then is decided when quota is free.
#[test]
fn who_would_borrow_keeps_nobody_from_borrowing() {
    let mut engine = lent(3);
    engine.apply_gang(of("b", part("runs", 12, Some(60))));
    engine.apply_gang(of("b", running(workers("two", 2, gpu(1, 6)), Some(60))));
    cycle_at(&mut engine, 0);
    engine.apply_gang(at(1, of("a", workers("wants", 2, gpu(1, 8)))));
    engine.apply_gang(at(2, of("c", part("small", 2, None))));
    let said = cycle_at(&mut engine, 2);
    assert!(said.contains(&"+small".to_owned()), "{said:?}");
}

/// The grace period counts as runtime, and a leaving gang ends with its grace period.
#[test]
fn what_is_given_back_late_does_not_pass() {
    let mut engine = lent(3);
    engine.apply_gang(of("b", part("runs", 6, Some(10))));
    engine.apply_gang(of("b", part("rest", 6, None)));
    cycle_at(&mut engine, 0);
    engine.apply_gang(at(1, of("a", part("owner", 8, Some(10)))));
    let mut graceful = at(2, of("c", part("graceful", 3, Some(8))));
    graceful.grace = Duration::from_secs(1);
    engine.apply_gang(graceful);
    let said = cycle_at(&mut engine, 2);
    assert!(said.contains(&"-graceful Reserved".to_owned()), "{said:?}");
    engine.apply_gang(at(3, of("c", part("in-time", 3, Some(7)))));
    let said = cycle_at(&mut engine, 3);
    assert!(said.contains(&"+in-time".to_owned()), "{said:?}");
}
