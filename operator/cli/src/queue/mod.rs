//! `trellis queue`: shows all pending and running jobs in one table.
//! The table combines the content of Slurm's squeue, sprio and sshare.

mod job_table;
mod queue_format;
mod queue_summary;
#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::timeout;
use trellis_api::visibility::{JobState, QueueState};
use trellis_reads::queue::{JobScope, QueueFollower, QueueReads, read_queues};
use trellis_reads::{ApiFailure, ReadError, Reader};

use crate::command_view::{CommandView, ViewError, show_view};
use crate::output::{self, OutputFormat, Tone, paint};
use crate::target::NamespaceOptions;
use job_table::JobFilter;
use queue_format::QueueOutputFormat;
pub(crate) use queue_summary::format_nominal;

/// Shortest time between two refreshes.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Options of `trellis queue`.
#[derive(clap::Args, Clone, Debug)]
pub struct QueueOptions {
    /// Show only this queue.
    #[arg(value_name = "QUEUE")]
    queue: Option<String>,
    /// Show only your own jobs.
    /// Their annotation trellis.dev/requested-by has your user name.
    #[arg(long)]
    mine: bool,
    /// Show only jobs with these labels, as in kubectl: KEY=VALUE,...
    /// External pods are left out.
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Show only pending jobs.
    #[arg(long, conflicts_with = "running")]
    waiting: bool,
    /// Show only jobs that hold nodes.
    #[arg(long)]
    running: bool,
    /// Refresh the output after each change.
    #[arg(short, long)]
    watch: bool,
    /// Longest time between two refreshes, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Output for scripts (json, yaml, name) or with more columns (wide).
    /// The fields of json and yaml are in docs/command-line.md; name is input for other commands.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<QueueOutputFormat>,
    /// Show all namespaces. Fails if you may not see all of them.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Namespace and cluster.
    /// Default: all namespaces, or the namespace of the context if the user may not see all of
    /// them.
    #[command(flatten)]
    target: NamespaceOptions,
}

impl QueueOptions {
    fn job_scope(&self) -> JobScope {
        match (&self.target.namespace, self.all_namespaces) {
            (Some(_), _) => JobScope::Own,
            (None, true) => JobScope::All,
            (None, false) => JobScope::AllOrOwn,
        }
    }
}

/// The output for scripts.
#[derive(Serialize)]
struct QueueOutput<'a> {
    jobs: Vec<&'a JobState>,
    /// Null: the user may not see the queues.
    queues: Option<Vec<&'a QueueState>>,
    notes: &'a [String],
}

/// Shows the queues.
///
/// # Errors
/// If the cluster cannot be reached.
pub fn run(options: &QueueOptions) -> anyhow::Result<ExitCode> {
    let site = options.target.connect()?;
    site.cluster.block_on(async {
        let me = match options.mine {
            true => {
                let denied = |error: ApiFailure| {
                    site.reader
                        .explain(error, "create selfsubjectreviews.authentication.k8s.io")
                };
                Some(site.reader.user_name().await.map_err(denied)?)
            }
            false => None,
        };
        let interval = Duration::from_secs(options.interval);
        // The scheduler does not know labels, so a selection is read anew at the interval.
        let is_followed = options.watch && options.selector.is_none();
        let follower = Mutex::new(None);
        let look = async || {
            let reads = match is_followed {
                true => follow_queues(&mut *follower.lock().await, &site.reader, options).await?,
                false => {
                    let selector = options.selector.as_deref();
                    read_queues(&site.reader, options.job_scope(), selector).await?
                }
            };
            build_view(&reads, options, me.as_deref())
        };
        let pause = match is_followed {
            true => MIN_REFRESH_INTERVAL,
            false => interval,
        };
        let every = options.watch.then_some(pause);
        let format = options.output.and_then(QueueOutputFormat::as_output_format);
        Ok(show_view(format, every, look).await?.into())
    })
}

/// Reads the queues at first, and later waits for a change. The ages in the output change, too, so
/// it waits at most for the interval.
async fn follow_queues(
    follower: &mut Option<QueueFollower>,
    reader: &Reader,
    options: &QueueOptions,
) -> Result<QueueReads, ReadError> {
    let Some(known) = follower else {
        let started = QueueFollower::start(reader, options.job_scope()).await?;
        return Ok(follower.insert(started).reads());
    };
    let interval = Duration::from_secs(options.interval);
    let renewed = match known.lists_now() {
        true => known.renew().await,
        false => timeout(interval, known.renew()).await.unwrap_or(Ok(())),
    };
    if let Err(error) = renewed {
        *follower = None;
        return Err(error);
    }
    Ok(known.reads())
}

fn build_view(
    view: &QueueReads,
    options: &QueueOptions,
    me: Option<&str>,
) -> Result<CommandView, ViewError> {
    let filter = JobFilter {
        queue: options.queue.as_deref(),
        user: me,
        waiting: !options.running,
        running: !options.waiting,
    };
    if let Some(name) = filter.unknown_queue(&view.jobs, view.queues.as_deref()) {
        return Err(ViewError::not_found(format!(
            "there is no queue {name:?}: `trellis queue` lists all"
        )));
    }
    let jobs = filter.select(&view.jobs);
    let queues = view.queues.as_ref();
    let queues: Option<Vec<_>> = queues.map(|queues| {
        queues
            .iter()
            .filter(|queue| filter.matches_queue(queue))
            .collect()
    });
    if options.output == Some(QueueOutputFormat::Name) {
        return Ok(CommandView {
            text: queue_format::render_names(&jobs),
            notes: view.notes.clone(),
        });
    }
    let output = QueueOutput {
        jobs,
        queues,
        notes: &view.notes,
    };
    let format = options.output.and_then(QueueOutputFormat::as_output_format);
    if let Some(text) = output::serialize_object(format, &output)? {
        return Ok(CommandView {
            text,
            notes: view.notes.clone(),
        });
    }
    Ok(render_tables(&output, format == Some(OutputFormat::Wide)).into())
}

fn render_tables(view: &QueueOutput<'_>, wide: bool) -> String {
    let width = output::width().filter(|_| !wide);
    let mut text = String::new();
    for note in view.notes {
        text.push_str(&paint(&format!("# {note}\n"), Tone::Dim));
    }
    let queues = view.queues.iter().flatten().copied();
    text.push_str(&queue_summary::render_summary(queues, wide));
    text.push_str(&job_table::render_table(
        &view.jobs,
        Timestamp::now(),
        wide,
        width,
    ));
    text
}
