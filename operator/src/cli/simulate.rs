//! `trellis simulate`: a recorded workload, decided by the operator's engine.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;

use super::print;
use crate::simulate::{Table, Trace, run as simulate};

/// What to simulate.
#[derive(clap::Args, Debug)]
pub(super) struct Options {
    /// The jobs: an openb pod list, CSV, may be gzip'd. Columns are told by the
    /// header: name, `cpu_milli`, `memory_mib`, `num_gpu`, `gpu_milli`, and `gpu_spec`
    /// if there is one.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// The nodes: an openb node list with sn, `cpu_milli`, `memory_mib`, gpu, model.
    #[arg(long, value_name = "FILE")]
    nodes: PathBuf,
    /// How much comes: times the GPUs that there are.
    #[arg(long, value_name = "LOAD", default_value_t = 1.3, value_parser = load)]
    arrive: f64,
    /// What decides the order in which jobs come.
    #[arg(long, default_value_t = 42, allow_negative_numbers = true, value_parser = seed)]
    seed: u64,
    /// How the summary is printed.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// How the summary is printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Format {
    /// A line a number.
    Table,
    /// One object.
    Json,
}

/// More than a hundred times what there is says nothing more.
fn load(text: &str) -> Result<f64, String> {
    let load = text.parse::<f64>().ok();
    load.filter(|load| (0.0..=100.0).contains(load))
        .ok_or_else(|| "not a number from 0 to 100".to_owned())
}

/// A seed is any number; which one says nothing.
fn seed(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("not a whole number from 0 to {}", u64::MAX))
}

/// Simulates, and prints the summary.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let nodes = table(&options.nodes)?;
    let pods = table(&options.trace)?;
    let trace = Trace::read(&nodes, &pods).with_context(|| {
        let (nodes, pods) = (options.nodes.display(), options.trace.display());
        format!("cannot read the workload from \"{pods}\" and \"{nodes}\"")
    })?;
    let start = Instant::now();
    let mut summary = simulate(&trace, options.arrive, options.seed);
    summary.wall_seconds = start.elapsed().as_secs_f64();
    match options.output {
        Format::Table => print(&summary.table()),
        Format::Json => print(&format!("{}\n", serde_json::to_string(&summary)?)),
    }
}

fn table(path: &Path) -> anyhow::Result<Table> {
    let bytes = std::fs::read(path);
    let bytes = bytes.with_context(|| format!("cannot read \"{}\"", path.display()))?;
    Table::read(&bytes).with_context(|| format!("cannot read \"{}\"", path.display()))
}
