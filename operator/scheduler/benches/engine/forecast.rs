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
}
