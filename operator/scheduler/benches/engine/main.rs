//! `cargo engine-bench` measures the time of the engine's answers, in process, on one thread. It
//! prints them beside the published figures of peers. The peers' figures are from other machines
//! and, for KAI and Volcano, end to end. So the comparison shows only an order of magnitude.
//!
//! Each figure is a median over many runs on the same state. Each run undoes its changes outside
//! the measured time.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program that measures time and prints its table"
)]

mod backfill;
mod cluster;
mod forecast;
mod moves;
mod provisioning;
mod rank_ring;
mod reclaim;
mod row;
mod slices;
mod timing;

use clap::Parser;
use trellis_scheduler::{
    Decision, Engine, Gang, GangId, GroupName, TaskGroup, Time, TopologyRequest,
};

use cluster::{Fleet, gang, now, pod};
use row::Row;
use timing::{resident_bytes, time_runs};

#[derive(Parser)]
struct Arguments {
    /// One JSON object per row instead of a table.
    #[arg(long)]
    json: bool,
    /// Run only these parts: rebuild, place, large, topology, slices, ring, refuse, idle, event,
    /// reclaim, backfill, provisioning, moves, forecast.
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    only: Vec<String>,
    /// Accepted because `cargo bench` passes it.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let Arguments {
        json,
        only,
        bench: _,
    } = Arguments::parse();
    let print = |row: Row| row.print(json);
    // The rebuild runs first because it measures memory. Memory that earlier parts give back to the
    // allocator would hide its use.
    let parts: [(&str, &dyn Fn()); 14] = [
        ("rebuild", &|| print_rebuild(&print)),
        ("place", &|| print_place(&print)),
        ("large", &|| print_large(&print)),
        ("topology", &|| print_topology(&print)),
        ("slices", &|| slices::print_slices(&print)),
        ("ring", &|| rank_ring::print_rank_ring(&print)),
        ("refuse", &|| print_refuse(&print)),
        ("idle", &|| print_idle(&print)),
        ("event", &|| print_event(&print)),
        ("reclaim", &|| reclaim::print_reclaim(&print)),
        ("backfill", &|| backfill::print_rows(&print)),
        ("provisioning", &|| provisioning::print_provisioning(&print)),
        ("moves", &|| moves::print_moves(&print)),
        ("forecast", &|| forecast::print_forecast(&print)),
    ];
    for (name, part) in parts {
        if only.is_empty() || only.iter().any(|o| o == name) {
            part();
        }
    }
}

/// Measures a gang of 3, with constraints that the engine has seen before and with new ones.
fn print_place(print: &impl Fn(Row)) {
    let mut engine = Fleet::with_nodes(5_000).engine();
    let id = |i: usize| format!("team/small-{i}");
    let cached = time_runs(2_000, |i| {
        engine.apply_gang(gang(&id(i), 3, 1, None));
        let (took, decisions) = timing::time_run(|| engine.cycle(now(i)));
        assert!(
            matches!(decisions.as_slice(), [Decision::Place { .. }]),
            "placed"
        );
        engine.delete_gang(&trellis_scheduler::GangId::new(id(i)));
        took
    });
    print(
        Row::new(
            "place 3 x 1 GPU, 5,000 nodes, constraints known",
            cached.median,
        )
        .peer("kube-scheduler 3.7 ms"),
    );
    print(Row::new(
        "place 3 x 1 GPU, 5,000 nodes, constraints known, p99",
        cached.p99,
    ));
    let fresh = time_runs(300, |i| {
        // The selector is new, so the engine checks every node.
        engine.apply_gang(gang(&id(i), 3, 1, Some(&format!("zone-{i}"))));
        let (took, decisions) = timing::time_run(|| engine.cycle(now(i)));
        assert!(
            matches!(decisions.as_slice(), [Decision::Place { .. }]),
            "placed"
        );
        engine.delete_gang(&trellis_scheduler::GangId::new(id(i)));
        took
    });
    print(Row::new(
        "place 3 x 1 GPU, 5,000 nodes, constraints new",
        fresh.median,
    ));
    print(Row::new(
        "place 3 x 1 GPU, 5,000 nodes, constraints new, p99",
        fresh.p99,
    ));
}

/// Measures large gangs of whole nodes.
fn print_large(print: &impl Fn(Row)) {
    for nodes in [10_000, 100_000] {
        let mut engine = Fleet::with_nodes(nodes).engine();
        let took = time_runs(200, |i| {
            let id = format!("team/large-{i}");
            engine.apply_gang(gang(&id, 64, 8, None));
            let (took, decisions) = timing::time_run(|| engine.cycle(now(i)));
            assert!(
                matches!(decisions.as_slice(), [Decision::Place { .. }]),
                "placed"
            );
            engine.delete_gang(&trellis_scheduler::GangId::new(id));
            took
        });
        print(Row::new(
            format!("place 64 x 8 GPUs, {nodes} nodes"),
            took.median,
        ));
    }
}

/// Measures large gangs of whole nodes with topology requests, on blocks of 1,024 nodes.
fn print_topology(print: &impl Fn(Row)) {
    let one_group = |id: &str, topology: TopologyRequest| {
        let mut gang = gang(id, 512, 8, None);
        gang.topology = Some(topology);
        for group in &mut gang.groups {
            group.topology = Some(TopologyRequest::preferred("rack"));
        }
        gang
    };
    // A stage of a pipeline in each rack.
    let stages = |id: &str| {
        let mut gang = gang(id, 8, 8, None);
        gang.topology = Some(TopologyRequest::required("block"));
        let stage = gang.groups.pop();
        gang.groups = (0..64)
            .zip(std::iter::repeat_n(stage, 64))
            .filter_map(|(at, stage)| {
                Some(TaskGroup {
                    name: GroupName::new(format!("stage-{at}")),
                    topology: Some(TopologyRequest::required("rack")),
                    ..stage?
                })
            })
            .collect();
        gang
    };
    let measure = |case: &str, make: &dyn Fn(&str) -> Gang, places: bool| {
        let mut engine = Fleet::with_nodes(10_000).with_block_size(1_024).engine();
        let took = time_runs(200, |i| {
            let id = format!("team/close-{i}");
            engine.apply_gang(make(&id));
            let (took, decisions) = timing::time_run(|| engine.cycle(now(i)));
            let placed = matches!(decisions.as_slice(), [Decision::Place { .. }]);
            assert_eq!(placed, places, "{case}");
            engine.delete_gang(&GangId::new(id));
            took
        });
        print(Row::new(case, took.median));
    };
    measure(
        "place 512 x 8 with block and rack, 10,000 nodes",
        &|id| one_group(id, TopologyRequest::required("block")),
        true,
    );
    measure(
        "place 512 x 8, block and rack preferred, 10,000 nodes",
        &|id| one_group(id, TopologyRequest::preferred("block")),
        true,
    );
    measure(
        "place 64 groups of 8 x 8, each in a rack, 10,000 nodes",
        &stages,
        true,
    );
    measure(
        "refuse 1,100 x 8 in one block, 10,000 nodes",
        &|id| {
            let mut gang = one_group(id, TopologyRequest::required("block"));
            for group in &mut gang.groups {
                group.count = 1_100;
            }
            gang
        },
        false,
    );
}

/// Measures gangs that can never run. Each has a shape that the engine has not refused before.
fn print_refuse(print: &impl Fn(Row)) {
    let mut engine = Fleet::with_nodes(10_000).engine();
    let took = time_runs(300, |i| {
        let id = format!("team/impossible-{i}");
        engine.apply_gang(gang(&id, 20_000 + u32::try_from(i).unwrap_or(0), 8, None));
        let (took, decisions) = timing::time_run(|| engine.cycle(now(i)));
        assert!(
            matches!(decisions.as_slice(), [Decision::Wait { .. }]),
            "refused"
        );
        engine.delete_gang(&trellis_scheduler::GangId::new(id));
        took
    });
    print(
        Row::new("refuse an impossible gang, 10,000 nodes", took.median)
            .peer("KAI 249.5 s end to end"),
    );
    // The gang would fit if other gangs ended, so the engine must count free capacity.
    let mut engine = full_with_pending(10_000, 0);
    let took = time_runs(300, |i| {
        let count = 1_000 + u32::try_from(i).unwrap_or(0);
        let gang = gang(&format!("team/too-much-{i}"), count, 8, None);
        let (took, outlook) = timing::time_run(|| engine.try_gang(&gang, now(i + 2)));
        assert!(outlook.is_err(), "refused");
        took
    });
    print(Row::new(
        "refuse what fits if others end, 10,000 nodes",
        took.median,
    ));
}

fn full_with_pending(nodes: usize, pending: usize) -> Engine {
    let fleet = Fleet::with_nodes(nodes);
    let mut engine = fleet.engine();
    for i in 0..nodes {
        let id = format!("team/running-{i}");
        engine.apply_gang(gang(&id, 1, 8, None));
    }
    engine.cycle(now(0));
    for i in 0..pending {
        engine.apply_gang(gang(&format!("team/pending-{i}"), 8, 8, None));
    }
    engine.cycle(now(1));
    assert_eq!(engine.pending_gang_count(), pending, "all wait");
    engine
}

/// Measures a cycle without changes, with 10,000 pending gangs.
fn print_idle(print: &impl Fn(Row)) {
    let mut engine = full_with_pending(1_000, 10_000);
    let took = time_runs(1_000, |i| timing::time_run(|| engine.cycle(now(i + 2))).0);
    print(Row::new("idle cycle, 10,000 gangs wait", took.median));
}

/// Measures the creation and the deletion of an external pod.
fn print_event(print: &impl Fn(Row)) {
    let fleet = Fleet::with_nodes(10_000);
    let mut engine = fleet.engine();
    let took = time_runs(10_000, |i| {
        let (key, node, request) = pod(i, 10_000);
        timing::time_run(|| engine.apply_pod(key, node, request)).0
    });
    print(Row::new(
        "one watch event (a pod), 10,000 nodes",
        took.median,
    ));
    print(Row::new(
        "one watch event (a pod), 10,000 nodes, p99",
        took.p99,
    ));
    let mut engine = full_with_pending(1_000, 10_000);
    let took = time_runs(1_000, |i| {
        let (key, node, request) = pod(i, 1_000);
        timing::time_run(|| {
            engine.apply_pod(key, node, request);
            engine.cycle(now(i + 2))
        })
        .0
    });
    print(Row::new(
        "one watch event and a cycle, 10,000 gangs wait",
        took.median,
    ));
}

/// Measures a restart with 18,750 full nodes of 8 pods.
fn print_rebuild(print: &impl Fn(Row)) {
    const NODES: usize = 18_750;
    const PODS: usize = 150_000;
    let fleet = Fleet::with_nodes(NODES);
    let mut pods: Vec<_> = (0..PODS).map(|i| pod(i, NODES)).collect();
    let before = resident_bytes();
    let (took, engine) = timing::time_run(|| {
        let mut engine = fleet.engine();
        // Keeps the allocation of the vector until after the memory measurement.
        for (key, node, request) in pods.drain(..) {
            engine.apply_pod(key, node, request);
        }
        engine.cycle(Time::from_millis(0));
        engine
    });
    let grown = resident_bytes().saturating_sub(before);
    drop(pods);
    assert_eq!(engine.pod_count(), PODS);
    print(
        Row::new("rebuild from 150,000 pods on 18,750 nodes", took)
            .peer("Volcano 497 s to first bind"),
    );
    print(Row::bytes("memory of that engine", grown as f64));
}
