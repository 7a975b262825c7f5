//! Runs traces and generated workloads.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use trellis_simulate::scenario::ScenarioAutoscaler;
use trellis_simulate::{
    CsvTable, GangWorkload, HeliosTrace, OpenbTrace, PoolGrowth, SimulationSummary, parse_pools,
    run_trace as run_openb,
};

use super::printer::Printer;
use super::{SimulateOptions, WorkloadPacking, run_with_repacking};

/// Default load of an openb trace, as in the openb protocol.
const OPENB_LOAD: f64 = 1.3;
/// Default load of generated gangs, as a share of the GPU time.
const GANGS_LOAD: f64 = 0.9;
/// Default pool of generated gangs.
const DEFAULT_POOL: &str = "gpu=128x8";

/// Runs a trace. The header selects the format.
pub(super) fn run_trace(
    options: &SimulateOptions,
    trace: &Path,
    printer: &mut Printer,
) -> anyhow::Result<(SimulationSummary, Duration)> {
    let nodes = options.nodes.as_deref().unwrap_or_default();
    let jobs = read_table(trace)?;
    if HeliosTrace::matches_header(&jobs) {
        let pools = parse_pools(nodes).map_err(anyhow::Error::msg);
        let pools = pools.context("--nodes of a trace with durations")?;
        let jobs = HeliosTrace::read(&jobs, &pools);
        let jobs = jobs.with_context(|| format!("cannot read \"{}\"", trace.display()))?;
        let script = jobs.into_script(&pools, options.order.into());
        return Ok(run_with_repacking(script, options, printer));
    }
    if !OpenbTrace::matches_header(&jobs) {
        bail!(
            "\"{}\" has neither the column \"num_gpu\" of an openb pod list nor \"num_chips\" of jobs with durations",
            trace.display()
        );
    }
    let nodes = Path::new(nodes);
    let trace = OpenbTrace::read(&read_table(nodes)?, &jobs).with_context(|| {
        let (nodes, pods) = (nodes.display(), trace.display());
        format!("cannot read the workload from \"{pods}\" and \"{nodes}\"")
    })?;
    let start = Instant::now();
    let load = options.arrive.unwrap_or(OPENB_LOAD);
    let summary = run_openb(&trace, load, options.seed());
    Ok((summary, start.elapsed()))
}

/// Builds the generated workload from the options.
pub(super) fn build_workload(options: &SimulateOptions) -> anyhow::Result<GangWorkload> {
    let pools = parse_pools(options.nodes.as_deref().unwrap_or(DEFAULT_POOL));
    let pools = pools.map_err(anyhow::Error::msg).context("--nodes")?;
    let [pool] = pools.as_slice() else {
        bail!("--nodes: generated gangs run in one pool, such as {DEFAULT_POOL}");
    };
    let load = options.arrive.unwrap_or(GANGS_LOAD);
    if load <= 0.0 {
        bail!("--arrive: a load of 0 has no gangs: write a load above 0");
    }
    Ok(GangWorkload {
        pool: pool.clone(),
        jobs: options.jobs,
        load,
        seed: options.seed(),
        order: options.order.into(),
        // New nodes have no known rack.
        close_percent: if options.autoscale { 0 } else { options.close },
        cpu_percent: options.cpu_jobs,
        spread: options.packing == WorkloadPacking::Spread,
        growth: options.autoscale.then(|| PoolGrowth {
            min_nodes: options.min_nodes,
            settings: ScenarioAutoscaler {
                arrive_after: options.arrive_after,
                remove_idle_after: options.remove_idle_after,
                stock: None,
            }
            .to_settings(),
        }),
    })
}

fn read_table(path: &Path) -> anyhow::Result<CsvTable> {
    let bytes = std::fs::read(path);
    let bytes = bytes.with_context(|| format!("cannot read \"{}\"", path.display()))?;
    CsvTable::read(&bytes).with_context(|| format!("cannot read \"{}\"", path.display()))
}
