//! Tests of ends that differ from what was known: runtimes are corrected while gangs run, and a
//! preemptor runs from when its victims are gone.

use std::time::Duration;

use crate::backfill::{MINUTE, at, cycle_at, part, picture, start, whole};
use crate::common::*;
use crate::snapshots::twin;
use trellis_scheduler::{Gang, Preemption, Queue, QueueName, WithinQueue};

fn minutes(minutes: u64) -> Option<Duration> {
    Some(Duration::from_secs(60 * minutes))
}

#[test]
fn a_corrected_runtime_counts_at_once() {
    let mut engine = picture();
    engine.apply_gang(at(2, whole("late", 1, Some(70))));
    engine.delete_gang(&id("short"));
    // Two nodes are free, three are reserved.
    let said = cycle_at(&mut engine, 2);
    assert_eq!(
        said,
        ["+late"],
        "one of the two that the head does not need"
    );
    engine.delete_gang(&id("late"));
    engine.apply_gang(at(3, whole("kept", 2, Some(70))));
    assert_eq!(cycle_at(&mut engine, 3), ["-kept Reserved"]);
    let mut long = at(0, whole("long", 2, Some(90)));
    engine.apply_gang(long.clone());
    assert_eq!(cycle_at(&mut engine, 4), ["+kept"], "it ends in time now");
    assert_eq!(start(&engine, "head"), Some(91));
    long.grace = Duration::from_secs(300);
    engine.apply_gang(long.clone());
    cycle_at(&mut engine, 5);
    assert_eq!(start(&engine, "head"), Some(96), "grace counts");
    (long.runtime, long.grace) = (None, Duration::ZERO);
    engine.apply_gang(long.clone());
    cycle_at(&mut engine, 6);
    assert_eq!(start(&engine, "head"), None, "nobody knows any more");
    // The gang has already run for longer: it is past its end.
    long.runtime = minutes(1);
    engine.apply_gang(long);
    cycle_at(&mut engine, 7);
    assert_eq!(start(&engine, "head"), None);
}

#[test]
fn a_corrected_runtime_counts_for_quota() {
    let mut engine = engine(gpu_nodes(4));
    engine.apply_queue(queue("default", Some(&[(GPU, 8), ("cpu", 1_000_000)])));
    let runs = part("runs", 4, Some(10));
    engine.apply_gang(runs.clone());
    engine.apply_gang(at(1, part("head", 8, Some(10))));
    engine.apply_gang(at(2, part("beside", 4, Some(15))));
    let said = cycle_at(&mut engine, 0);
    assert_eq!(said, ["+runs", "-head QuotaExceeded", "-beside Reserved"]);
    engine.apply_gang(Gang {
        runtime: minutes(15),
        ..runs
    });
    assert_eq!(cycle_at(&mut engine, 0), ["+beside"]);
}

/// The end of a preemptor counts from when it starts, in an engine and in one that is restored from
/// a snapshot of it.
#[test]
fn who_is_nominated_runs_from_when_it_starts() {
    let mut engine = engine(gpu_nodes(1));
    engine.apply_queue(Queue {
        preemption: Preemption {
            within_queue: WithinQueue::LowerPriority,
            ..Preemption::default()
        },
        ..Queue::new(QueueName::new("default"))
    });
    let low = whole("low", 1, Some(60));
    engine.apply_gang(low.clone());
    assert_eq!(cycle_at(&mut engine, 0), ["+low"]);
    pod(&mut engine, "team/low-worker-0", "n00", gpu(8, 8));
    let mut high = at(1, whole("high", 1, Some(10)));
    high.priority = 1;
    engine.apply_gang(high);
    cycle_at(&mut engine, 1);
    let mut read = twin(&engine).unwrap();
    for engine in [&mut engine, &mut read] {
        assert_eq!(engine.placed_gangs(), 2, "one leaves, one follows");
        engine.release_gang(&id("low"), None);
        engine.delete_pod(&worker("low", 0));
        let said = cycle_at(engine, 5);
        assert_eq!(said, ["+high", "-low InsufficientCapacity"]);
        assert_eq!(start(engine, "low"), Some(15));
        assert_eq!(engine.next_wakeup(), Some(ms(15 * MINUTE + 1)));
    }
    assert_eq!(read.snapshot(), engine.snapshot());
}

/// A gang that is predicted to run for this many minutes.
fn predicted(gang: Gang, to_run: u64) -> Gang {
    Gang {
        runtime: None,
        predicted: minutes(to_run),
        ..gang
    }
}

#[test]
fn a_prediction_is_planned_with_and_followed_by_the_next_when_it_is_exceeded() {
    let mut engine = picture();
    engine.apply_gang(predicted(whole("long", 2, None), 20));
    cycle_at(&mut engine, 2);
    assert_eq!(start(&engine, "head"), Some(21));
    engine.apply_gang(at(3, predicted(whole("in-time", 1, None), 17)));
    engine.apply_gang(at(3, predicted(whole("too-long", 1, None), 19)));
    engine.delete_gang(&id("short"));
    assert_eq!(
        cycle_at(&mut engine, 3),
        ["+in-time", "+too-long"],
        "the one ends in time, the other is beside the place"
    );
    // The gang was placed after a minute. When it exceeds 20 minutes, it gets one more, then five.
    let past = |minute: i64| ms(minute * MINUTE + 1);
    engine.delete_gang(&id("in-time"));
    cycle_at(&mut engine, 4);
    assert_eq!(engine.next_wakeup(), Some(past(21)));
    engine.cycle(past(21));
    assert_eq!(start(&engine, "head"), Some(22));
    engine.cycle(past(22));
    assert_eq!(start(&engine, "head"), Some(27));
    // A known limit ends it, and earlier.
    let mut long = predicted(whole("long", 2, None), 20);
    long.runtime = minutes(24);
    engine.apply_gang(long);
    engine.cycle(past(22));
    assert_eq!(start(&engine, "head"), Some(25));
    engine.cycle(past(25));
    assert_eq!(start(&engine, "head"), None);
}

/// Small gangs keep coming that are predicted to end in time and do not.
#[test]
fn a_head_is_not_passed_for_ever_by_those_who_are_only_predicted_to_end() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_gang(predicted(whole("first", 1, None), 10));
    cycle_at(&mut engine, 0);
    engine.apply_gang(at(1, whole("head", 2, None)));
    let hour = 60;
    let mut passed_until = 0;
    let mut runs = vec![("first".to_owned(), 90)];
    let mut minute = 1;
    while engine.placement(&id("head")).is_none() && minute < 100 * hour {
        runs.retain(|(name, until)| {
            let goes_on = *until > minute;
            if !goes_on {
                engine.delete_gang(&id(name));
            }
            goes_on
        });
        let name = format!("small-{minute}");
        engine.apply_gang(at(minute, predicted(whole(&name, 1, None), 1)));
        cycle_at(&mut engine, minute);
        if engine.placement(&id(&name)).is_some() {
            runs.push((name, minute + 3 * hour));
            passed_until = minute;
        } else {
            engine.delete_gang(&id(&name));
        }
        minute += 30;
    }
    let day = 24 * hour;
    assert!(
        (day - 4 * hour..=day).contains(&passed_until),
        "{passed_until}"
    );
    assert!(minute <= day + 4 * hour, "{minute}");
}
