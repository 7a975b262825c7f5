//! `trellis simulate`: what the operator's engine makes of a workload: one that
//! is written by hand, recorded, or made up.

mod input_files;
mod node_patterns;
mod printer;
mod scenario;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use trellis_api::document::Problem;
use trellis_scheduler::{QueueOrder, Time};

use super::requester_options::RequesterOptions;
use crate::output;
use printer::Printer;
use trellis_simulate::scenario::TimeSpan;
use trellis_simulate::{BackfillRuntimeSource, SimulationScript, SimulationSummary};

/// Exit status where something was otherwise than a scenario expects.
const UNEXPECTED: u8 = 1;

/// What to simulate.
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["files", "trace", "workload"]))]
pub(super) struct SimulateOptions {
    /// Scenarios, and objects that are there from the beginning: `TrainingJobs`,
    /// queues, `ResourceFlavors`, Topologies, `RuntimeProfiles`, policies, `QuotaPolicies`,
    /// Nodes, Pods, `PriorityClasses`, Namespaces, Services, claims and volumes.
    /// `PodGroups`, `ResourceQuotas`, `DaemonSets` and `DeviceClasses` are not looked at; pods
    /// start at once and fail only by an event; GPU-hours begin with nothing burnt. YAML; - is
    /// standard input.
    #[arg(value_name = "FILES")]
    files: Vec<PathBuf>,
    /// Recorded jobs: CSV, may be gzip'd. The format is told by the header: an
    /// openb pod list (name, `cpu_milli`, `memory_mib`, `num_gpu`, `gpu_milli`,
    /// `gpu_spec`), or jobs with users and durations (`job_id`, user, tenant,
    /// `submit_time`, `num_chips`, `num_nodes`, `duration_s`, `walltime_limit_s`).
    #[arg(long, value_name = "FILE", requires = "nodes")]
    trace: Option<PathBuf>,
    /// A workload that is made up from the seed.
    #[arg(long, value_enum, value_name = "NAME")]
    workload: Option<WorkloadKind>,
    /// The nodes: of an openb trace a node list (sn, `cpu_milli`, `memory_mib`, gpu,
    /// model), else pools of equal nodes, such as a=20x8,b=2x8: 20 nodes of 8 GPUs
    /// and 2 of 8. Of a made-up workload, if not said, gpu=128x8.
    #[arg(long, value_name = "FILE|POOLS", conflicts_with = "files")]
    nodes: Option<String>,
    /// How much comes: times the GPUs that there are; of a made-up workload times
    /// the GPU time that there is. Openb: 1.3, gangs: 0.9, if not said.
    #[arg(long, value_name = "LOAD", value_parser = parse_load, conflicts_with = "files")]
    arrive: Option<f64>,
    /// How many jobs are made up.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = parse_job_count, requires = "workload")]
    jobs: usize,
    /// Percentage of made-up gangs that must be in one rack of 8 nodes or, if a gang
    /// needs more nodes, in one block of 4 racks.
    #[arg(long, value_name = "PERCENT", default_value_t = 40, value_parser = clap::value_parser!(u8).range(0..=100), requires = "workload")]
    close: u8,
    /// What everything that is drawn is drawn with. Of a scenario that names none
    /// and of traces 42, if not said.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse_seed)]
    seed: Option<u64>,
    /// Stop at this time, such as 90s or 2h. Not said: when nothing happens any more.
    #[arg(long, value_name = "TIME")]
    until: Option<TimeSpan>,
    /// What backfill plans with: how long jobs really run, or what the last two
    /// runs of the same namespace and name (of a trace: pool and user) predict.
    /// Not said: what the jobs say themselves.
    #[arg(long, value_enum, value_name = "WHICH")]
    runtime: Option<BackfillRuntimes>,
    /// Of so many jobs in a hundred backfill knows no runtime at all.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    unknown: u8,
    /// Whether the heads of queues may be passed, in traces and made-up workloads.
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = HeadOrder::Priority, conflicts_with = "files")]
    order: HeadOrder,
    #[command(flatten)]
    requester: RequesterOptions,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t = SimulateFormat::Table)]
    output: SimulateFormat,
}

/// How a simulation is printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum SimulateFormat {
    /// For people: the summary, and for files what happens before it.
    Table,
    /// The summary, one object.
    Json,
    /// What happens, one object a line, and last the summary.
    Jsonl,
}

/// What backfill plans with.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum BackfillRuntimes {
    /// How long jobs really run.
    Exact,
    /// What the last two runs predict.
    Predicted,
}

/// A workload that is made up.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum WorkloadKind {
    /// Gangs of up to 64 nodes that come, run and go.
    Gangs,
}

/// Whether heads may be passed.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum HeadOrder {
    /// They may.
    #[value(name = "Priority")]
    Priority,
    /// They may not.
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

/// More than a hundred times what there is says nothing more.
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

/// Simulates, and says by the exit status whether all was as expected.
pub(super) fn run(options: &SimulateOptions) -> anyhow::Result<ExitCode> {
    if options.files.is_empty() && options.requester.requester().is_some() {
        let message = "--as says who submits the jobs of files, and there are none: leave it out";
        return Ok(output::print_problems(&[Problem::for_file(message)]));
    }
    let mut printer = Printer::new(options.output);
    let (summary, wall) = if let Some(trace) = &options.trace {
        workloads::run_trace(options, trace, &mut printer)?
    } else if options.workload.is_some() {
        let workload = workloads::build_workload(options)?;
        run_timed(workload.to_script(), options, None, &mut printer)
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
    // The table says it itself.
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

/// Where neither the command nor a scenario says it.
const DEFAULT_SEED: u64 = 42;

/// A seed is any number; which one says nothing.
fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("not a whole number from 0 to {}", u64::MAX))
}

impl SimulateOptions {
    fn seed(&self) -> u64 {
        self.seed.unwrap_or(DEFAULT_SEED)
    }
}

/// Lets a script happen, and measures how long that takes in real time.
fn run_timed(
    script: SimulationScript,
    options: &SimulateOptions,
    seed: Option<u64>,
    printer: &mut Printer,
) -> (SimulationSummary, Duration) {
    let how = trellis_simulate::SimulationOptions {
        until: options.until.map(|span| Time::default().plus(span.0)),
        runtimes: match options.runtime {
            None => BackfillRuntimeSource::Declared,
            Some(BackfillRuntimes::Exact) => BackfillRuntimeSource::Exact,
            Some(BackfillRuntimes::Predicted) => BackfillRuntimeSource::Predicted,
        },
        unknown_percent: options.unknown,
        seed: options.seed.or(seed).unwrap_or(DEFAULT_SEED),
        domains: options
            .workload
            .map(|WorkloadKind::Gangs| trellis_simulate::RACK),
    };
    let start = Instant::now();
    let summary =
        trellis_simulate::run_script(script, how, &mut |record| printer.print_record(record));
    (summary, start.elapsed())
}
