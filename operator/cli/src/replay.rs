//! `trellis replay`: what a running scheduler wrote down, decided again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Serialize;
use trellis_scheduler::{Engine, Gang, GangId, Snapshot, Time};

use super::plan::runs;
use crate::output::print;
use trellis_simulate::{Clock, Record, why};

/// What to decide again.
#[derive(clap::Args, Debug)]
pub(super) struct Options {
    /// A snapshot, as the operator writes it.
    #[arg(value_name = "SNAPSHOT")]
    file: PathBuf,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// How it is printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Format {
    /// For people.
    Table,
    /// One object.
    Json,
}

/// What is decided, and who waits afterwards.
#[derive(Serialize)]
struct Replayed<'a> {
    /// Seconds since the epoch.
    t: f64,
    decisions: Vec<Record<'a>>,
    waiting: Vec<Waits<'a>>,
}

/// A gang that waits.
#[derive(Serialize)]
struct Waits<'a> {
    job: &'a str,
    queue: &'a str,
    /// Its place in the order of the queue, from 1.
    position: Option<usize>,
    /// The certificate, with the numbers of then.
    reason: String,
}

fn read(file: &Path) -> anyhow::Result<Snapshot> {
    let content = std::fs::read(file)?;
    serde_json::from_slice(&content).context("is no snapshot of this version of trellis")
}

/// Decides again, and prints it.
pub(super) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let snapshot = read(&options.file)
        .with_context(|| format!("cannot replay \"{}\"", options.file.display()))?;
    let gangs: BTreeMap<&GangId, &Gang> = snapshot
        .gangs
        .iter()
        .map(|told| (&told.gang.id, &told.gang))
        .collect();
    let now = snapshot.now;
    let mut engine = Engine::from_snapshot(&snapshot);
    let decided = engine.cycle(now);
    let of = |decision| Record::of((now, Clock::Wall), decision, |id| gangs.get(id).copied());
    let decisions = decided.iter().flat_map(of).collect();
    let still: Vec<GangId> = engine.waiting().cloned().collect();
    let waiting = still
        .iter()
        .filter_map(|id| waits(&mut engine, gangs.get(id)?, now))
        .collect();
    let replayed = Replayed {
        t: trellis_simulate::seconds(now),
        decisions,
        waiting,
    };
    match options.output {
        Format::Json => print(&format!("{}\n", serde_json::to_string(&replayed)?))?,
        Format::Table => print(&table(&replayed, now))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn waits<'a>(engine: &mut Engine, gang: &'a Gang, now: Time) -> Option<Waits<'a>> {
    let certificate = engine.why_waiting(&gang.id, now)?;
    Some(Waits {
        job: gang.id.as_str(),
        queue: gang.queue.as_str(),
        position: engine.position(&gang.id),
        reason: why(&certificate, Clock::Wall),
    })
}

fn table(replayed: &Replayed<'_>, now: Time) -> String {
    let (decisions, waiting) = (&replayed.decisions, &replayed.waiting);
    let mut text = format!("at {now}: {} decisions\n", decisions.len());
    for record in decisions {
        let place = record.place.map(|(_, placement)| runs::places(placement));
        let told = place.unwrap_or_else(|| record.reason.clone());
        let line = format!("  {:<10} {:<24} {told}", record.event.as_str(), record.job);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(&format!("{} wait\n", waiting.len()));
    for waits in waiting {
        let position = waits.position.map_or("-".to_owned(), |p| p.to_string());
        text.push_str(&format!(
            "  {:<24} {position:>4} in {:<16} {}\n",
            waits.job, waits.queue, waits.reason
        ));
    }
    text
}
