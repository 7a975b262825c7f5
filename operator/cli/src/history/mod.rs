//! `trellis history`: the attempts of jobs that have ended, like Slurm's sacct.

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_api::visibility::EndedAttempt;
use trellis_reads::attempts::read_attempts;
use trellis_reads::queue::JobScope;

use crate::exit::Exit;
use crate::output::{self, Cell, OutputFormat, Table, Tone, format_age, phase_tone, print, warn};
use crate::target::{NamespaceOptions, parse_job_name};

/// Options of `trellis history`.
#[derive(clap::Args, Clone, Debug)]
pub struct HistoryOptions {
    /// Show only the attempts of this job.
    #[arg(value_name = "JOB")]
    job: Option<String>,
    /// Show only attempts that were preempted or drained.
    #[arg(long)]
    preempted: bool,
    /// Show only attempts that failed.
    #[arg(long, conflicts_with = "preempted")]
    failed: bool,
    /// Output for scripts (json, yaml) or with more columns (wide).
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
    /// Show all namespaces. Fails if you may not see all of them.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Namespace and cluster.
    /// Default: all namespaces, or the namespace of the context if the user may not see all of
    /// them. With a job: the namespace of the context.
    #[command(flatten)]
    target: NamespaceOptions,
}

/// Shows the ended attempts, the last one first.
///
/// # Errors
/// If the cluster cannot be reached.
pub fn run(options: &HistoryOptions) -> anyhow::Result<ExitCode> {
    let job = options.job.as_deref().map(parse_job_name).transpose()?;
    let site = options.target.connect()?;
    let is_own = options.target.namespace.is_some() || job.is_some();
    let scope = match (options.all_namespaces, is_own) {
        (true, _) => JobScope::All,
        (false, true) => JobScope::Own,
        (false, false) => JobScope::AllOrOwn,
    };
    let reads = site.cluster.block_on(read_attempts(&site.reader, scope));
    let reads = reads.map_err(|error| error.message)?;
    if !reads.is_complete && scope == JobScope::AllOrOwn {
        let own = &site.reader.namespace;
        warn(&format!("note: only attempts of namespace {own:?}"));
    }
    let attempts = reads.attempts.iter().rev().map(AsRef::as_ref);
    let attempts: Vec<&EndedAttempt> = attempts
        .filter(|ended: &&EndedAttempt| job.as_ref().is_none_or(|job| *job == ended.job))
        .filter(|ended| !options.preempted || ended.preempted)
        .filter(|ended| !options.failed || has_failed(ended))
        .collect();
    if let Some(text) = output::serialize_object(options.output, &attempts)? {
        print(&text)?;
        return Ok(Exit::Done.into());
    }
    if attempts.is_empty() {
        warn("no such attempt has ended in the last 24 hours, as far as the leader has seen");
        return Ok(match job {
            Some(_) => Exit::Negative,
            None => Exit::Done,
        }
        .into());
    }
    let wide = options.output == Some(OutputFormat::Wide);
    let width = output::width().filter(|_| !wide);
    print(&render_table(&attempts, Timestamp::now(), wide, width))?;
    Ok(Exit::Done.into())
}

fn render_table(
    attempts: &[&EndedAttempt],
    now: Timestamp,
    wide: bool,
    width: Option<usize>,
) -> String {
    let mut columns = vec![
        "JOB", "ATTEMPT", "USER", "GPUS", "ENDED", "HELD", "RAN", "END",
    ];
    if wide {
        columns.extend(["QUEUE", "NODES"]);
    }
    columns.push("WHY");
    let mut table = Table::new(columns);
    for ended in attempts {
        table.push_row(build_row(ended, now, wide));
    }
    table.render(0, width)
}

fn build_row(ended: &EndedAttempt, now: Timestamp, wide: bool) -> Vec<Cell> {
    let namespace = ended.metadata.namespace.as_deref().unwrap_or_default();
    let ran = ended.running.as_ref();
    let ran = ran.map_or("-".to_owned(), |running| {
        format_age(running.0, ended.ended.0)
    });
    let mut cells: Vec<Cell> = vec![
        format!("{namespace}/{}", ended.job).into(),
        ended.attempt.to_string().into(),
        ended.user.clone().unwrap_or_else(|| "-".to_owned()).into(),
        ended.gpus.to_string().into(),
        format!("{} ago", format_age(ended.ended.0, now)).into(),
        format_age(ended.placed.0, ended.ended.0).into(),
        ran.into(),
        end_cell(ended),
    ];
    if wide {
        let nodes = ended.node_count.map(|nodes| nodes.to_string());
        cells.extend([ended.queue.clone().into(), nodes.unwrap_or_default().into()]);
    }
    cells.push(describe_cause(ended).into());
    cells
}

/// Returns true if the attempt failed, or the job with it.
fn has_failed(ended: &EndedAttempt) -> bool {
    !ended.preempted && (ended.failure.is_some() || ended.phase == Some(JobPhase::Failed))
}

/// How the attempt ended, in one word.
fn end_cell(ended: &EndedAttempt) -> Cell {
    match ended.phase {
        _ if ended.preempted => Cell::new("Preempted", Tone::Waiting),
        Some(phase @ (JobPhase::Complete | JobPhase::Failed | JobPhase::Suspended)) => {
            Cell::new(phase.as_str(), phase_tone(phase))
        }
        _ if has_failed(ended) => Cell::new("Failed", Tone::Bad),
        Some(_) => Cell::new(ended.reason.map_or("Ended", Reason::as_str), Tone::Plain),
        None => Cell::new("Deleted", Tone::Plain),
    }
}

/// The cause of the end, in words.
fn describe_cause(ended: &EndedAttempt) -> String {
    let Some(failure) = &ended.failure else {
        return ended.message.clone().unwrap_or_default();
    };
    let code = failure.exit_code.map(|code| format!(", exit code {code}"));
    let line = failure.last_line.as_ref().map(|line| format!(": {line}"));
    format!(
        "{} {}{}{}",
        failure.pod,
        failure.reason,
        code.unwrap_or_default(),
        line.unwrap_or_default()
    )
}
