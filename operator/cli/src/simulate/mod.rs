//! `trellis simulate`: runs the operator's engine on a workload in virtual time.
//! The workload is a scenario, a trace or a generated workload.

mod input_files;
mod node_patterns;
pub(crate) mod printer;
mod scenario;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use trellis_api::document::Problem;
use trellis_scheduler::{PackingRule, QueueOrder, Time};
use trellis_simulate::scenario::{TimeRange, TimeSpan};
use trellis_simulate::{
    BackfillRuntimeSource, RepackingSummary, SimulationOptions, SimulationScript, SimulationSummary,
};

use super::requester_options::RequesterOptions;
use crate::output;
use printer::Printer;

/// Exit status if an expectation of a scenario was not met.
const UNEXPECTED: u8 = 1;

/// Options of `trellis simulate`.
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["files", "trace", "workload"]))]
pub(super) struct SimulateOptions {
    /// Scenarios and initial objects in YAML; - is standard input.
    /// Objects may be `TrainingJobs`, queues, `ResourceFlavors`, Topologies, `RuntimeProfiles`,
    /// policies, `QuotaPolicies`, Nodes, Pods, `PriorityClasses`, Namespaces, Services, claims and
    /// volumes. The simulation ignores `PodGroups`, `ResourceQuotas`, `DaemonSets` and
    /// `DeviceClasses`. Pods start at once and fail only by an event. The usage of GPU-hours starts
    /// at zero.
    #[arg(value_name = "FILES")]
    files: Vec<PathBuf>,
    /// A trace of jobs as CSV, optionally gzip'd.
    /// The header selects the format. It is an openb pod list (name, `cpu_milli`, `memory_mib`,
    /// `num_gpu`, `gpu_milli`, `gpu_spec`), or jobs with users and durations (`job_id`, user,
    /// tenant, `submit_time`, `num_chips`, `num_nodes`, `duration_s`, `walltime_limit_s`).
    #[arg(long, value_name = "FILE", requires = "nodes")]
    trace: Option<PathBuf>,
    /// Generate this workload from the seed.
    #[arg(long, value_enum, value_name = "NAME")]
    workload: Option<WorkloadKind>,
    /// The nodes.
    /// For an openb trace: a node list (sn, `cpu_milli`, `memory_mib`, gpu, model). Otherwise:
    /// pools of equal nodes; for example, a=20x8,b=2x8 has 20 nodes with 8 GPUs each and 2 nodes
    /// with 8 each. Default for a generated workload: gpu=128x8.
    #[arg(long, value_name = "FILE|POOLS", conflicts_with = "files")]
    nodes: Option<String>,
    /// The load.
    /// For an openb trace: requested GPUs divided by all GPUs. For a generated workload: requested
    /// GPU time divided by the available GPU time. Default: 1.3 for openb, 0.9 for gangs.
    #[arg(long, value_name = "LOAD", value_parser = parse_load, conflicts_with = "files")]
    arrive: Option<f64>,
    /// Number of generated jobs.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = parse_job_count, requires = "workload", conflicts_with_all = ["files", "trace"])]
    jobs: usize,
    /// Percentage of generated gangs that need one rack of 8 nodes.
    /// A larger gang needs one block of 4 racks.
    #[arg(long, value_name = "PERCENT", default_value_t = 40, value_parser = clap::value_parser!(u8).range(0..=100), requires = "workload", conflicts_with_all = ["files", "trace"])]
    close: u8,
    /// Percentage of the other generated gangs that need cores instead of GPUs.
    /// Above 0, each GPU of a node or a job comes with 12 cores.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100), requires = "workload", conflicts_with_all = ["files", "trace", "autoscale"])]
    cpu_jobs: u8,
    /// Rule that chooses nodes for a generated workload, to compare Trellis with.
    #[arg(long, value_enum, value_name = "RULE", default_value_t = WorkloadPacking::WholeDomains, requires = "workload", conflicts_with_all = ["files", "trace"])]
    packing: WorkloadPacking,
    /// Let an autoscaler add and remove the nodes of a generated workload.
    /// The pool has as many nodes as --nodes says at most. No gang needs one rack, because new
    /// nodes have no known rack.
    #[arg(long, requires = "workload", conflicts_with_all = ["files", "trace", "close"])]
    autoscale: bool,
    /// Time from an order until its node is ready, such as 5m.
    /// Or a range such as 3m..8m, from which the time of each node is drawn. Default: 5m.
    #[arg(long, value_name = "TIME", requires = "autoscale")]
    arrive_after: Option<TimeRange>,
    /// How long a node must be idle before it is removed. Default: 10m.
    #[arg(long, value_name = "TIME", requires = "autoscale")]
    remove_idle_after: Option<TimeSpan>,
    /// Nodes that exist from the start and are never removed.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "autoscale")]
    min_nodes: u32,
    /// Seed of all random numbers. Default: the seed of the scenario, else 42.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse_seed)]
    seed: Option<u64>,
    /// Stop at this time, such as 90s or 2h.
    /// Default: when nothing happens any more.
    #[arg(long, value_name = "TIME")]
    until: Option<TimeSpan>,
    /// Runtimes that backfill plans with.
    /// Either the real runtime of each job, or a prediction from the last two runs of the same
    /// namespace and name (in a trace: pool and user). Default: the runtime that each job declares.
    #[arg(long, value_enum, value_name = "WHICH")]
    runtime: Option<BackfillRuntimes>,
    /// Percentage of jobs whose runtime backfill does not know.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    unknown: u8,
    /// Let jobs start before the head of their queue, or not.
    /// Applies to traces and generated workloads.
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = HeadOrder::Priority, conflicts_with = "files")]
    order: HeadOrder,
    #[command(flatten)]
    requester: RequesterOptions,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = SimulateFormat::Table)]
    output: SimulateFormat,
}

/// Output formats.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum SimulateFormat {
    /// Text: the summary; with files, the events before it.
    Table,
    /// The summary, as one object.
    Json,
    /// The events, one object per line, with the summary at the end.
    Jsonl,
}

/// Runtimes that backfill plans with.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum BackfillRuntimes {
    /// The real runtime of each job.
    Exact,
    /// A prediction from the last two runs.
    Predicted,
}

/// Generated workloads.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum WorkloadKind {
    /// Gangs of up to 64 nodes that arrive, run and end.
    Gangs,
}

/// Rules that choose nodes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum WorkloadPacking {
    /// Keep whole racks and blocks for gangs that need them, as Trellis does.
    WholeDomains,
    /// Take the node with the least free capacity, without regard to racks.
    /// KAI (bin packing) and Kueue (LeastFreeCapacity, for jobs without a topology request) choose so.
    Nodes,
    /// Take the nodes with the most free capacity for jobs without a topology request.
    /// This is the default of kube-scheduler (LeastAllocated).
    Spread,
}

impl From<WorkloadPacking> for PackingRule {
    fn from(packing: WorkloadPacking) -> Self {
        match packing {
            WorkloadPacking::WholeDomains => Self::WholeDomains,
            WorkloadPacking::Nodes | WorkloadPacking::Spread => Self::SingleNodes,
        }
    }
}

/// The rule for jobs behind the head of their queue.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum HeadOrder {
    /// They may start before the head.
    #[value(name = "Priority")]
    Priority,
    /// They must wait for the head.
    #[value(name = "StrictFIFO")]
    StrictFifo,
}

impl From<HeadOrder> for QueueOrder {
    fn from(order: HeadOrder) -> Self {
        match order {
            HeadOrder::Priority => Self::Priority,
            HeadOrder::StrictFifo => Self::StrictFifo,
        }
    }
}

/// A load above a hundred gives no additional insight.
fn parse_load(text: &str) -> Result<f64, String> {
    let load = text.parse::<f64>().ok();
    load.filter(|load| (0.0..=100.0).contains(load))
        .ok_or_else(|| "not a number from 0 to 100".to_owned())
}

fn parse_job_count(text: &str) -> Result<usize, String> {
    let jobs = text.parse().ok();
    jobs.filter(|jobs| (1..=10_000_000).contains(jobs))
        .ok_or_else(|| "not a whole number from 1 to 10000000".to_owned())
}

/// Runs the simulation.
/// The exit status shows whether all expectations were met.
pub(super) fn run(options: &SimulateOptions) -> anyhow::Result<ExitCode> {
    if options.files.is_empty() && options.requester.requester().is_some() {
        let message = "--as sets the submitter of jobs in files, and there are none: leave it out";
        return Ok(output::print_problems(&[Problem::for_file(message)]));
    }
    let mut printer = Printer::new(options.output);
    let (summary, wall) = if let Some(trace) = &options.trace {
        workloads::run_trace(options, trace, &mut printer)?
    } else if options.workload.is_some() {
        let script = workloads::build_workload(options)?.to_script();
        match options.autoscale {
            true => run_timed(script, options, None, &mut printer),
            false => run_with_repacking(script, options, &mut printer),
        }
    } else {
        let read = match scenario::read_scenario(&options.files, options.requester.requester()) {
            Ok(read) => read,
            Err(problems) => return Ok(output::print_problems(&problems)),
        };
        for note in &read.notes {
            output::warn(&format!("note: {note}"));
        }
        printer.with_timeline();
        run_timed(read.script, options, read.seed, &mut printer)
    };
    printer.print_summary(summary.clone(), wall)?;
    // The table contains these lines itself.
    if options.output != SimulateFormat::Table {
        for missed in summary.expects.iter().filter(|e| !e.held) {
            let (t, reason) = (missed.t, &missed.reason);
            output::warn(&format!("not as expected at {t} s: {reason}"));
        }
    }
    Ok(if summary.expects_held == Some(false) {
        ExitCode::from(UNEXPECTED)
    } else {
        ExitCode::SUCCESS
    })
}

/// The seed if neither the command nor a scenario has one.
const DEFAULT_SEED: u64 = 42;

/// A seed is any whole number from 0 to the greatest `u64`.
fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("not a whole number from 0 to {}", u64::MAX))
}

impl SimulateOptions {
    fn seed(&self) -> u64 {
        self.seed.unwrap_or(DEFAULT_SEED)
    }

    /// Returns the options of the engine's run. `seed` is that of a scenario.
    fn simulation(&self, seed: Option<u64>) -> SimulationOptions {
        SimulationOptions {
            until: self.until.map(|span| Time::default().plus(span.0)),
            runtimes: match self.runtime {
                None => BackfillRuntimeSource::Declared,
                Some(BackfillRuntimes::Exact) => BackfillRuntimeSource::Exact,
                Some(BackfillRuntimes::Predicted) => BackfillRuntimeSource::Predicted,
            },
            unknown_percent: self.unknown,
            seed: self.seed.or(seed).unwrap_or(DEFAULT_SEED),
            domains: self
                .workload
                .filter(|_| !self.autoscale)
                .map(|WorkloadKind::Gangs| trellis_simulate::RACK),
            counts_nodes: self.workload.is_some(),
            packing: self.packing.into(),
        }
    }
}

/// Runs a script, and measures the real time.
fn run_timed(
    script: SimulationScript,
    options: &SimulateOptions,
    seed: Option<u64>,
    printer: &mut Printer,
) -> (SimulationSummary, Duration) {
    let simulation = options.simulation(seed);
    let start = Instant::now();
    let summary = trellis_simulate::run_script(script, simulation, &mut |record| {
        printer.print_record(record)
    });
    (summary, start.elapsed())
}

/// Like [`run_timed`], for a workload without an autoscaler. The summary also has the results on
/// merged nodes.
fn run_with_repacking(
    script: SimulationScript,
    options: &SimulateOptions,
    printer: &mut Printer,
) -> (SimulationSummary, Duration) {
    let (mut summary, wall) = run_timed(script.clone(), options, None, printer);
    let simulation = options.simulation(None);
    let repacked = trellis_simulate::run_script(script.repacked(), simulation, &mut |_| {});
    summary.repacked = Some(RepackingSummary::compare(&summary, &repacked));
    (summary, wall)
}
