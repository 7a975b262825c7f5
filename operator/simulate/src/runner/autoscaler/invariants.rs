//! Rules that hold in every simulation of a generated workload in a growing pool.

#![expect(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use trellis_scheduler::{GangId, QueueOrder, ResourceName, Time};

use super::AutoscalerSettings;
use crate::pools::{GPU, Pool};
use crate::runner::simulated_job::SimulatedJobStage;
use crate::runner::{
    JobEvent, ScriptChange, SimulationOptions, SimulationRecord, SimulationRunner,
};
use crate::{GangWorkload, PoolGrowth};

const GPUS: i64 = 8;
/// Orders end at the latest after this time: the default of the API.
const TIMEOUT: Duration = Duration::from_secs(1_800);

fn any_workload() -> impl Strategy<Value = GangWorkload> {
    let settings = (
        0..600_u64,
        0..900_u64,
        1..900_u64,
        prop::option::of(0..16_u32),
    );
    let settings = settings.prop_map(|(shortest, spread, idle, stock)| AutoscalerSettings {
        arrive_after: (
            Duration::from_secs(shortest),
            Duration::from_secs(shortest + spread),
        ),
        remove_idle_after: Duration::from_secs(idle),
        stock,
    });
    // The shares of the queues are whole GPUs in pools of 5, 10 and 15 nodes.
    let nodes = (1..4_i64).prop_map(|n| 5 * n);
    let sizes = (nodes, 0..4_u32, 1..60_usize, 1..30_u32);
    let order = prop_oneof![Just(QueueOrder::Priority), Just(QueueOrder::StrictFifo)];
    let all = (settings, sizes, any::<u64>(), order);
    all.prop_map(
        |(settings, (nodes, min_nodes, jobs, load), seed, order)| GangWorkload {
            pool: Pool {
                name: "gpu".to_owned(),
                nodes,
                gpus: GPUS,
            },
            jobs,
            load: f64::from(load) / 10.0,
            seed,
            order,
            close_percent: 0,
            cpu_percent: 0,
            spread: false,
            growth: Some(PoolGrowth {
                min_nodes,
                settings,
            }),
        },
    )
}

/// The events and figures of one simulation.
#[derive(Debug, Default, PartialEq)]
struct History {
    lines: Vec<String>,
    /// Gangs for which the engine ordered nodes, and gangs that started, in their order.
    orders: Vec<GangId>,
    starts: Vec<GangId>,
    pods: BTreeMap<GangId, u32>,
    idle_hours: f64,
    arrived: usize,
}

/// Runs a workload, and checks the state after each step.
fn run(workload: &GangWorkload) -> Result<History, TestCaseError> {
    let growth = workload.growth.as_ref().unwrap();
    let mut history = History::default();
    let mut changes = workload.to_script().into_changes();
    // A gang larger than the pool, or than the nodes that the autoscaler has, never starts.
    let stock = i64::from(growth.settings.stock.unwrap_or(u32::MAX));
    let limit = workload.pool.nodes.min(i64::from(growth.min_nodes) + stock);
    changes.retain(|(_, change)| match change {
        ScriptChange::Job(job) => i64::from(job.gang.groups[0].count) <= limit,
        _ => true,
    });
    for (_, change) in &changes {
        if let ScriptChange::Job(job) = change {
            history
                .pods
                .insert(job.gang.id.clone(), job.gang.groups[0].count);
        }
    }
    let mut events = Vec::new();
    let mut record_sink = |record: &SimulationRecord<'_>| {
        history.lines.push(serde_json::to_string(record).unwrap());
        if let SimulationRecord::Job(job) = record {
            events.push((job.event, job.job.clone()));
        }
    };
    let options = SimulationOptions {
        until: Some(Time::default().plus(Duration::from_secs(90 * 86_400))),
        ..SimulationOptions::default()
    };
    let mut runner = SimulationRunner::new(options, &mut record_sink);
    let mut script = changes.into_iter().peekable();
    let mut known = Vec::new();
    while runner.step(&mut script) {
        let orders = runner.autoscaler.orders.iter();
        let orders: Vec<GangId> = orders.map(|(gang, _)| gang.clone()).collect();
        // A waiting gang without an order may have a reservation, or may have lost its order in
        // this cycle. Check only if every waiting gang has an order.
        let waiting = runner.jobs.values();
        let mut waiting = waiting.filter(|job| job.stage == SimulatedJobStage::Waiting);
        if waiting.all(|job| orders.contains(&job.gang.id)) {
            for gang in orders.iter().filter(|gang| !known.contains(*gang)) {
                check_new_order(&runner, gang)?;
            }
        }
        known = orders;
        check_nodes(&runner, workload)?;
    }
    for job in runner.jobs.values() {
        prop_assert_eq!(
            job.stage,
            SimulatedJobStage::Ended,
            "{} starts",
            job.gang.id
        );
    }
    let nodes = runner.into_summary().nodes.unwrap();
    (history.idle_hours, history.arrived) = (nodes.idle_hours, nodes.arrived);
    for (event, job) in events {
        match event {
            JobEvent::Ordered => history.orders.push(job),
            JobEvent::Placed => history.starts.push(job),
            _ => {}
        }
    }
    Ok(history)
}

/// Existing and coming nodes are never more than the flavor may have, and no order outlives its
/// timeout.
fn check_nodes(
    runner: &SimulationRunner<'_, '_>,
    workload: &GangWorkload,
) -> Result<(), TestCaseError> {
    let all = runner.nodes.len() + runner.autoscaler.coming.len();
    let min_nodes = workload.growth.as_ref().unwrap().min_nodes as usize;
    let most = usize::try_from(workload.pool.nodes).unwrap().max(min_nodes);
    prop_assert!(all <= most, "{} nodes at {:?}", all, runner.now);
    for (gang, order) in runner.engine.provisioned_gangs() {
        let age = runner.now.since(order.since);
        prop_assert!(age < TIMEOUT, "the order for {} is {:?} old", gang, age);
    }
    Ok(())
}

/// When nodes are ordered for a gang, they are no more than its pods, and no existing node has room
/// for one of its pods.
fn check_new_order(runner: &SimulationRunner<'_, '_>, gang: &GangId) -> Result<(), TestCaseError> {
    let group = &runner.jobs[gang].gang.groups[0];
    let (wanted, _) = runner.engine.provisioning(gang).unwrap().progress();
    prop_assert!(wanted <= group.count, "{} nodes for {}", wanted, gang);
    let gpu = ResourceName::new(GPU);
    let need = group.request.get(&gpu);
    for node in runner.nodes.keys() {
        let free = runner.engine.free(node).unwrap()[&gpu];
        prop_assert!(
            free < need,
            "{} has room for {} at {:?}",
            node,
            gang,
            runner.now
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn growing_pool_is_bounded_and_serves_every_gang(workload in any_workload()) {
        let history = run(&workload)?;
        prop_assert_eq!(&history, &run(&workload)?, "the same seed gives the same history");

        // While an order needs an idle node, the node waits at most for the timeout of the order.
        // An unneeded idle period begins when a node arrives, when a gang leaves it, or when an
        // order ends. It lasts at most `remove_idle_after`.
        let pods = |gangs: &[GangId]| -> f64 {
            gangs.iter().map(|gang| f64::from(history.pods[gang])).sum()
        };
        let growth = workload.growth.as_ref().unwrap();
        let needed = TIMEOUT.as_secs_f64() * pods(&history.orders);
        let begins = history.arrived as f64 + pods(&history.starts) + pods(&history.orders);
        let unneeded = growth.settings.remove_idle_after.as_secs_f64() * begins;
        let bound = (needed + unneeded) / 3_600.0;
        if growth.min_nodes == 0 {
            prop_assert!(history.idle_hours <= bound, "{} > {}", history.idle_hours, bound);
        }
    }
}
