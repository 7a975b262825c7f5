//! `trellis replay`: repeats the decisions of a scheduler from its snapshot.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Serialize;
use trellis_scheduler::{Engine, Gang, GangId, Time};
use trellis_simulate::{JobEventRecord, RecordClock, format_explanation};

use super::simulate::printer::format_placement;
use crate::files::engine_snapshot::read_snapshot;
use crate::output::print;

/// Options of `trellis replay`.
#[derive(clap::Args, Debug)]
pub(super) struct ReplayOptions {
    /// A snapshot that the operator wrote.
    #[arg(value_name = "SNAPSHOT")]
    file: PathBuf,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = ReplayFormat::Table)]
    output: ReplayFormat,
}

/// Output formats.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum ReplayFormat {
    /// Text.
    Table,
    /// One object.
    Json,
}

/// The decisions, and the gangs that are pending afterwards.
#[derive(Serialize)]
struct ReplayReport<'a> {
    /// Seconds since the epoch.
    t: f64,
    decisions: Vec<JobEventRecord<'a>>,
    waiting: Vec<PendingGangRow<'a>>,
}

/// A pending gang.
#[derive(Serialize)]
struct PendingGangRow<'a> {
    job: &'a str,
    queue: &'a str,
    /// Its position in the queue, from 1.
    position: Option<usize>,
    /// The explanation, with the numbers of the snapshot.
    reason: String,
}

/// Repeats the decisions, and prints them.
pub(super) fn run(options: &ReplayOptions) -> anyhow::Result<ExitCode> {
    let snapshot = read_snapshot(&options.file)
        .with_context(|| format!("cannot replay \"{}\"", options.file.display()))?;
    let gangs: BTreeMap<&GangId, &Gang> = snapshot
        .gangs
        .iter()
        .map(|state| (&state.gang.id, &state.gang))
        .collect();
    let now = snapshot.now;
    let mut engine = Engine::from_snapshot(&snapshot);
    let decided = engine.cycle(now);
    let to_record = |decision| {
        JobEventRecord::from_decision((now, RecordClock::Wall), decision, |id| {
            gangs.get(id).copied()
        })
    };
    let decisions = decided.iter().flat_map(to_record).collect();
    let still: Vec<GangId> = engine.pending_gangs().cloned().collect();
    let waiting = still
        .iter()
        .filter_map(|id| build_pending_row(&mut engine, gangs.get(id)?, now))
        .collect();
    let replayed = ReplayReport {
        t: trellis_simulate::to_seconds(now),
        decisions,
        waiting,
    };
    match options.output {
        ReplayFormat::Json => print(&format!("{}\n", serde_json::to_string(&replayed)?))?,
        ReplayFormat::Table => print(&render_table(&replayed, now))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn build_pending_row<'a>(
    engine: &mut Engine,
    gang: &'a Gang,
    now: Time,
) -> Option<PendingGangRow<'a>> {
    let explanation = engine.explain_wait(&gang.id, now)?;
    Some(PendingGangRow {
        job: gang.id.as_str(),
        queue: gang.queue.as_str(),
        position: engine.position(&gang.id),
        reason: format_explanation(&explanation, RecordClock::Wall),
    })
}

fn render_table(replayed: &ReplayReport<'_>, now: Time) -> String {
    let (decisions, waiting) = (&replayed.decisions, &replayed.waiting);
    let mut text = format!("at {now}: {} decisions\n", decisions.len());
    for record in decisions {
        let place = record
            .placement
            .map(|(_, placement)| format_placement(placement));
        let detail = place.unwrap_or_else(|| record.reason.clone());
        let line = format!(
            "  {:<10} {:<24} {detail}",
            record.event.as_str(),
            record.job
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(&format!("{} pending\n", waiting.len()));
    for pending in waiting {
        let position = pending.position.map_or("-".to_owned(), |p| p.to_string());
        text.push_str(&format!(
            "  {:<24} {position:>4} in {:<16} {}\n",
            pending.job, pending.queue, pending.reason
        ));
    }
    text
}
