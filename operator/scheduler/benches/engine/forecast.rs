//! Forecasts of all pending gangs, as lists and `trellis what-if` show them.

use std::time::{Duration, Instant};

use trellis_scheduler::{Engine, Forecast, Gang, GroupName, NodeName, Placement, Snapshot, Time};

use crate::cluster::{Fleet, gang};
use crate::row::Row;
use crate::timing::{self, time_runs};

/// Longest time of a forecast, as in the operator.
const MAX_TIME: Duration = Duration::from_secs(2);

/// Returns a cluster with one gang on each node, and this many gangs of 1 to 8 nodes that wait. Each
/// gang runs for 10 to 500 minutes.
fn full_cluster(nodes: usize, waiting: usize) -> Snapshot {
    let mut engine = Fleet::with_nodes(nodes).engine();
    let run = |number: usize| Some(Duration::from_secs(600 + (number as u64 * 7_919) % 29_400));
    for number in 0..nodes {
        let mut placement = Placement::new();
        let node = NodeName::new(format!("gpu-{number:06}"));
        placement.push(GroupName::new("worker"), vec![(node, 1)]);
        let running = Gang {
            runtime: run(number),
            ..gang(&format!("team/running-{number}"), 1, 8, None)
        };
        engine.restore_gang(running, placement, Time::from_millis(0));
    }
    for number in 0..waiting {
        let pods = 1 + (number % 8) as u32;
        engine.apply_gang(Gang {
            runtime: run(number + 13),
            ..gang(&format!("team/waiting-{number}"), pods, 8, None)
        });
    }
    engine.cycle(Time::from_millis(1_000));
    engine.snapshot()
}

/// Compares the starts of a forecast with exact ones. Returns the errors between which nine of ten
/// starts are, in percent of the time ahead; negative if a start is foreseen too early.
fn errors(exact: &Forecast, forecast: &Forecast, now: Time) -> (f64, f64) {
    let ahead = |start: &Time| (start.as_millis() - now.as_millis()).max(60_000) as f64;
    let error = |(gang, start): (_, &Time)| {
        let foreseen = forecast.starts.get(gang)?;
        let late = foreseen.as_millis() - start.as_millis();
        Some(100.0 * late as f64 / ahead(start))
    };
    let mut errors: Vec<f64> = exact.starts.iter().filter_map(error).collect();
    errors.sort_by(f64::total_cmp);
    let twentieth = errors.len() / 20;
    let at = |place: Option<&f64>| place.copied().unwrap_or(f64::NAN);
    (
        at(errors.get(twentieth)),
        at(errors.iter().rev().nth(twentieth)),
    )
}

/// Measures how far the times of a forecast are from those of a forecast in which all pending gangs
/// compete, which takes much longer.
fn print_errors(print: &impl Fn(Row)) {
    for (nodes, waiting) in [(100, 400), (500, 1_000)] {
        let snapshot = full_cluster(nodes, waiting);
        let forecast = Forecast::from_snapshot(&snapshot, |_| true);
        let (took, exact) =
            timing::time_run(|| Forecast::with_competitors(&snapshot, usize::MAX, |_| true));
        assert_eq!(exact.starts.len(), forecast.starts.len());
        let (early, late) = errors(&exact, &forecast, snapshot.now);
        print(Row::new(
            format!("all compete, {nodes} nodes; otherwise {early:+.1} to {late:+.1} %"),
            took,
        ));
    }
}

/// Measures how far a forecast sees in the time that it may take. Each restores an engine first, so
/// the time of that is a lower bound.
pub(crate) fn print_forecast(print: &impl Fn(Row)) {
    for (nodes, waiting) in [(100, 100), (500, 1_000), (5_000, 10_000)] {
        let snapshot = full_cluster(nodes, waiting);
        let mut starts = 0;
        let took = time_runs(3, |_| {
            let (took, forecast) = timing::time_run(|| {
                let began = Instant::now();
                Forecast::from_snapshot(&snapshot, |_| began.elapsed() < MAX_TIME)
            });
            starts = forecast.starts.len();
            took
        });
        print(Row::new(
            format!("foresee {starts} of {waiting} starts, {nodes} nodes"),
            took.median,
        ));
        let took = time_runs(3, |_| {
            timing::time_run(|| Engine::from_snapshot(&snapshot)).0
        });
        print(Row::new("restore that engine", took.median));
    }
    print_errors(print);
}
