//! Recorded workloads and scenarios, which `trellis simulate` reads.

use trellis_scheduler::QueueOrder;
use trellis_simulate::scenario::Scenario;
use trellis_simulate::{
    CsvTable, HeliosTrace, OpenbTrace, SimulationOptions, SimulationSummary, parse_pools,
    run_script, run_trace,
};

use super::{decode, readable_documents};
use crate::Target;

/// The target. A recording that is read can be simulated, and its numbers are percentages and
/// counts. A scenario that is accepted reads the same after it is written. The parts of an input
/// are separated by lines of `===`: pools and jobs, nodes and pods, or a scenario.
pub const TARGET: Target = Target {
    check,
    words: &[
        "===\n",
        "1000000",
        "a=2x8",
        "\n",
        "\"",
        "sn",
        "gpu",
        "num_gpu",
        "gpu_milli",
        "gpu_spec",
        "num_chips",
        "num_nodes",
        "duration_s",
        "submit_time",
        "walltime_limit_s",
        "count",
        "capacity",
        "{i}",
        "{i/4}",
        "1h30m",
        "10s",
        "-1",
        "expect",
        "events",
        "apply",
    ],
    inputs_per_case: 8,
};

/// Largest number of nodes and rows that are simulated.
const MAX_ROWS: usize = 200;

fn check(input: &[u8]) {
    let Some(text) = crate::text(input) else {
        return;
    };
    if let Some((first, second)) = text.split_once("===\n") {
        check_helios(first.trim(), second);
        check_openb(first, second);
    } else {
        check_scenario(text);
    }
}

fn check_helios(pools: &str, jobs: &str) {
    let Ok(pools) = parse_pools(pools) else {
        return;
    };
    let nodes = pools
        .iter()
        .fold(0_i64, |sum, pool| sum.saturating_add(pool.nodes));
    if nodes > MAX_ROWS as i64 || jobs.lines().count() > MAX_ROWS {
        return;
    }
    let Ok(table) = CsvTable::read(jobs.as_bytes()) else {
        return;
    };
    match HeliosTrace::read(&table, &pools) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(trace) => {
            let script = trace.into_script(&pools, QueueOrder::default());
            let summary = run_script(script, SimulationOptions::default(), &mut |_| {});
            check_summary(&summary);
        }
    }
}

fn check_openb(nodes: &str, pods: &str) {
    let rows = nodes.lines().count().max(pods.lines().count());
    let tables = CsvTable::read(nodes.as_bytes())
        .ok()
        .zip(CsvTable::read(pods.as_bytes()).ok());
    let Some((nodes, pods)) = tables.filter(|_| rows <= MAX_ROWS) else {
        return;
    };
    match OpenbTrace::read(&nodes, &pods) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(trace) => {
            let summary = run_trace(&trace, 0.5, 1);
            check_summary(&summary);
        }
    }
}

fn check_summary(summary: &SimulationSummary) {
    assert!(summary.placed <= summary.jobs, "{summary:?}");
    let percent = summary.allocated_gpu_percent;
    assert!((0.0..=100.1).contains(&percent), "{percent} % of the GPUs");
}

fn check_scenario(text: &str) {
    for document in readable_documents(text) {
        let Some(scenario) = decode::<Scenario>(&document, text) else {
            continue;
        };
        for pattern in &scenario.spec.nodes {
            for (resource, quantity) in &pattern.capacity {
                let amount = quantity.amount().expect("the rules read it");
                let zero = trellis_api::quantity::Amount::ZERO;
                assert!(amount >= zero, "{resource} is {quantity}");
            }
        }
        let written = serde_json::to_string(&scenario).expect("a scenario is JSON");
        let again: Scenario = serde_json::from_str(&written).expect("it reads again");
        assert_eq!(serde_json::to_string(&again).expect("JSON"), written);
    }
}
