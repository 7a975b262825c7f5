//! Measures the time that reservations take.

use std::time::Duration;

use trellis_scheduler::{Decision, Engine, Gang, GangId, Time};

use crate::cluster::{Fleet, gang};
use crate::row::Row;
use crate::timing::{time_run, time_runs};

const NODES: usize = 2_500;
const PLACED: usize = 10_000;
const WAITING: usize = 1_000;

fn with_runtime(mut gang: Gang, minutes: usize) -> Gang {
    gang.runtime = Some(Duration::from_secs(60 * minutes as u64));
    gang
}

fn submitted_at(mut gang: Gang, at: i64) -> Gang {
    gang.submitted = Time::from_millis(at);
    gang
}

/// Returns an engine in which 10,000 running gangs of 2 GPUs end one after another. A gang of 64 x
/// 8 GPUs waits for the first ends, and 1,000 gangs like `behind` wait behind it.
fn full_engine(behind: impl Fn(usize) -> Gang) -> Engine {
    let mut engine = Fleet::with_nodes(NODES).engine();
    for i in 0..PLACED {
        let gang = gang(&format!("team/running-{i}"), 1, 2, None);
        engine.apply_gang(with_runtime(gang, 60 + i));
    }
    engine.cycle(Time::from_millis(0));
    engine.apply_gang(submitted_at(
        with_runtime(gang("team/head", 64, 8, None), 60),
        1,
    ));
    for i in 0..WAITING {
        engine.apply_gang(submitted_at(behind(i), 2));
    }
    engine.cycle(Time::from_millis(2));
    assert_eq!(engine.pending_gang_count(), WAITING + 1, "all wait");
    assert_eq!(engine.reservations().count(), 1);
    engine
}

/// Measures the end of a gang and the cycle after it. Another gang then takes the room again.
fn measure_end(engine: &mut Engine) -> crate::timing::RunStatistics {
    let mut last: Option<String> = None;
    let mut now = 3;
    time_runs(300, |i| {
        // A gang in the room of the head's placement.
        let id = last.take().unwrap_or_else(|| "team/running-10".to_owned());
        now += 1;
        let (took, decisions) = time_run(|| {
            engine.delete_gang(&GangId::new(id));
            engine.cycle(Time::from_millis(now))
        });
        let starts = decisions
            .iter()
            .any(|d| matches!(d, Decision::Place { .. }));
        assert!(!starts, "nobody starts");
        let next = format!("team/next-{i}");
        // The new gang goes before all others.
        let mut gang = with_runtime(gang(&next, 1, 2, None), 5_000);
        gang.priority = 1;
        engine.apply_gang(gang);
        engine.cycle(Time::from_millis(now));
        last = Some(next);
        took
    })
}

pub(crate) fn print_rows(print: &impl Fn(Row)) {
    let mut engine = full_engine(|i| gang(&format!("team/waits-{i}"), 2, 8, None));
    let took = measure_end(&mut engine);
    print(Row::new(
        "a gang ends, 10,000 run, 1,000 wait for room, a reservation is renewed",
        took.median,
    ));
    let idle = time_runs(1_000, |i| {
        let now = Time::from_millis(1_000 + i as i64);
        time_run(|| engine.cycle(now)).0
    });
    print(Row::new("idle cycle beside it", idle.median));
    let mut engine = full_engine(|i| gang(&format!("team/waits-{i}"), 1, 1, None));
    // The gangs would fit into the freed room, but the engine reserves it for the head.
    let took = measure_end(&mut engine);
    print(Row::new(
        "a gang ends, 10,000 run, 1,000 are kept away by a reservation",
        took.median,
    ));
}
