//! The cost of reservations.

use std::time::Duration;

use trellis_scheduler::{Decision, Engine, Gang, GangId, Time};

use crate::cluster::{Fleet, gang};
use crate::row::Row;
use crate::timing::{one, runs};

const NODES: usize = 2_500;
const PLACED: usize = 10_000;
const WAITING: usize = 1_000;

fn minutes(mut gang: Gang, minutes: usize) -> Gang {
    gang.runtime = Some(Duration::from_secs(60 * minutes as u64));
    gang
}

fn submitted(mut gang: Gang, at: i64) -> Gang {
    gang.submitted = Time::from_millis(at);
    gang
}

/// 10,000 running gangs of 2 GPUs end one after another. A gang of 64 x 8 GPUs waits for the first
/// of them, and behind it wait 1,000 gangs like `behind`.
fn full(behind: impl Fn(usize) -> Gang) -> Engine {
    let mut engine = Fleet::of(NODES).engine();
    for i in 0..PLACED {
        let gang = gang(&format!("team/running-{i}"), 1, 2, None);
        engine.apply_gang(minutes(gang, 60 + i));
    }
    engine.cycle(Time::from_millis(0));
    engine.apply_gang(submitted(minutes(gang("team/head", 64, 8, None), 60), 1));
    for i in 0..WAITING {
        engine.apply_gang(submitted(behind(i), 2));
    }
    engine.cycle(Time::from_millis(2));
    assert_eq!(engine.waiting_gangs(), WAITING + 1, "all wait");
    assert_eq!(engine.reservations().count(), 1);
    engine
}

/// Measures an end and the cycle after it; another gang takes the room again.
fn ends(engine: &mut Engine) -> crate::timing::Spread {
    let mut last: Option<String> = None;
    let mut now = 3;
    runs(300, |i| {
        // A gang on the head's place.
        let id = last.take().unwrap_or_else(|| "team/running-10".to_owned());
        now += 1;
        let (took, decisions) = one(|| {
            engine.delete_gang(&GangId::new(id));
            engine.cycle(Time::from_millis(now))
        });
        let starts = decisions
            .iter()
            .any(|d| matches!(d, Decision::Place { .. }));
        assert!(!starts, "nobody starts");
        let next = format!("team/next-{i}");
        // The new gang goes before all others.
        let mut gang = minutes(gang(&next, 1, 2, None), 5_000);
        gang.priority = 1;
        engine.apply_gang(gang);
        engine.cycle(Time::from_millis(now));
        last = Some(next);
        took
    })
}

pub(crate) fn rows(print: &impl Fn(Row)) {
    let mut engine = full(|i| gang(&format!("team/waits-{i}"), 2, 8, None));
    let took = ends(&mut engine);
    print(Row::new(
        "a gang ends, 10,000 run, 1,000 wait for room, a reservation is renewed",
        took.median,
    ));
    let idle = runs(1_000, |i| {
        let now = Time::from_millis(1_000 + i as i64);
        one(|| engine.cycle(now)).0
    });
    print(Row::new("idle cycle beside it", idle.median));
    let mut engine = full(|i| gang(&format!("team/waits-{i}"), 1, 1, None));
    // They would fit into what ends, but it is reserved for the head.
    let took = ends(&mut engine);
    print(Row::new(
        "a gang ends, 10,000 run, 1,000 are kept away by a reservation",
        took.median,
    ));
}
