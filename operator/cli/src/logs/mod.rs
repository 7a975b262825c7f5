//! `trellis logs`: prints the logs of a job's pods, by rank, across restarts.

mod follow;
mod log_lines;
mod log_stream;
mod no_log;
mod pod_selection;
mod started_logs;
#[cfg(test)]
mod tests;
mod unreadable_log;
mod watched_job;

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::sync::mpsc;
use trellis_api::TrainingJob;

use crate::exit::Exit;
use crate::output::warn;
use crate::target::{NamespaceOptions, TargetNamespace, parse_job_name};
use crate::wait_options;
use log_stream::LogRange;
use no_log::NoLog;
use pod_selection::{LogTarget, SelectedPod, select_pods};
use trellis_reads::list;
use trellis_reads::report::pods_of_job;

/// The rights that the command needs.
const RIGHTS: &str = "list and watch pods and get pods/log";
/// Number of pieces of output that may wait in the channel.
const QUEUED_PIECES: usize = 64;

/// Options of `trellis logs`.
#[derive(clap::Args, Clone, Debug)]
pub struct LogsOptions {
    /// The job: NAME or tj/NAME.
    #[arg(value_name = "JOB")]
    job: String,
    /// Show the pod with this rank (TRELLIS_RANK) in the job's current stage.
    /// Default: rank 0.
    #[arg(long, value_name = "N", conflicts_with_all = ["group", "index", "all"])]
    rank: Option<u32>,
    /// Show a pod of this task group, also if its stage is complete.
    /// The pod is the first one, or the one of --index; --all shows every pod of the group.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Show the pod with this index in its group.
    #[arg(long, value_name = "N", conflicts_with = "all")]
    index: Option<u32>,
    /// Show all pods; each line starts with its rank and pod.
    #[arg(long)]
    all: bool,
    /// Follow the log until the job has ended.
    /// After a restart, this continues with the new pod of the same rank or index.
    #[arg(short, long)]
    follow: bool,
    /// Show the previous log.
    /// It comes from the container before its last restart, else from the previous attempt while
    /// its pods exist.
    #[arg(short, long, conflicts_with = "follow")]
    previous: bool,
    /// Show only the last lines of each pod.
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(i64).range(0..))]
    tail: Option<i64>,
    /// Show only lines that were written within this time (90s, 5m, 2h).
    #[arg(long, value_name = "TIME", value_parser = wait_options::parse_duration)]
    since: Option<Duration>,
    /// Show the time of each line.
    #[arg(long)]
    timestamps: bool,
    /// Show this container of the pod, such as a sidecar.
    /// Default: main, the task group's own container.
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Greatest number of logs that are read at the same time.
    #[arg(long, value_name = "N", default_value = "32")]
    max: NonZeroUsize,
    /// Namespace and cluster.
    #[command(flatten)]
    namespace_options: NamespaceOptions,
}

impl LogsOptions {
    fn to_log_target(&self) -> LogTarget {
        LogTarget {
            rank: self.rank,
            group: self.group.clone(),
            index: self.index,
            all: self.all,
            previous: self.previous,
            container: self.container.clone(),
        }
    }

    fn to_log_range(&self) -> LogRange {
        LogRange {
            tail: self.tail,
            since_seconds: self
                .since
                .map(|since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX)),
            timestamps: self.timestamps,
            follow: self.follow,
        }
    }

    /// Returns the prefix for each line of a pod.
    fn line_prefix(&self, chosen: &SelectedPod) -> String {
        match (self.all, chosen.pod.rank) {
            (false, _) => String::new(),
            (true, Some(rank)) => format!("[{rank} {}] ", chosen.pod.name),
            (true, None) => format!("[{}] ", chosen.pod.name),
        }
    }
}

/// Shows the logs.
/// Exit status: 0 a log was shown, 1 no log exists, 2 no cluster.
///
/// # Errors
/// If the name is invalid, or the cluster cannot be reached.
pub fn run(options: &LogsOptions) -> anyhow::Result<ExitCode> {
    let name = parse_job_name(&options.job)?;
    let site = options.namespace_options.connect()?;
    let exit = match options.follow {
        true => site.cluster.block_on(follow::run(&site, &name, options))?,
        false => site.cluster.block_on(show_once(&site, &name, options))?,
    };
    Ok(exit.into())
}

fn pods(site: &TargetNamespace) -> Api<Pod> {
    Api::namespaced(site.cluster.client().clone(), &site.reader.namespace)
}

async fn show_once(
    site: &TargetNamespace,
    name: &str,
    options: &LogsOptions,
) -> anyhow::Result<Exit> {
    let Some(job) = site.reader.get_job(name).await? else {
        warn(&format!("error: {:#}", site.reader.not_found_error(name)));
        return Ok(Exit::Negative);
    };
    let pods = pods(site);
    let all = list(&pods, &pods_of_job(&job)).await;
    let all = all.map_err(|error| site.reader.explain_core(error, RIGHTS))?;
    let all = all.unwrap_or_default();
    let target = options.to_log_target();
    let chosen = match select_pods(&job, &all, &target) {
        Ok(chosen) => chosen,
        Err(without) => {
            let hint = previous_hint(&job, &all, &target, &without);
            let (NoLog::Impossible(reason) | NoLog::Unavailable(reason)) = without;
            warn(&format!("error: {reason}{hint}"));
            return Ok(Exit::Negative);
        }
    };
    let (begun, rest): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|chosen| chosen.has_started);
    for chosen in &rest {
        warn(&format!(
            "{}{}",
            message_prefix(begun.is_empty()),
            no_log::explain_not_started(&chosen.pod, &chosen.container)
        ));
    }
    if begun.is_empty() {
        return Ok(Exit::Negative);
    }
    let (out, pieces) = mpsc::channel::<Vec<u8>>(QUEUED_PIECES);
    let reads: Vec<_> = begun
        .into_iter()
        .map(|chosen| {
            let (pods, out) = (pods.clone(), out.clone());
            let (part, prefix) = (options.to_log_range(), options.line_prefix(&chosen));
            log_stream::stream_log(pods, chosen, part, prefix, None, out)
        })
        .collect();
    // The writer ends when the last sender is dropped.
    drop(out);
    let reads = futures::stream::iter(reads)
        .buffer_unordered(options.max.get())
        .filter_map(async |read| read.err())
        .collect::<Vec<_>>();
    let (failed, written) = futures::join!(reads, write_pieces(pieces));
    written?;
    if failed.is_empty() {
        return Ok(Exit::Done);
    }
    let (simulated, rest): (Vec<_>, Vec<_>) =
        failed.into_iter().partition(|failure| failure.is_simulated);
    if !simulated.is_empty() {
        warn(&format!(
            "error: {}",
            unreadable_log::explain_simulated(&simulated)
        ));
    }
    for failure in rest {
        warn(&format!("error: {}", failure.explain(site)));
    }
    Ok(Exit::Negative)
}

/// Returns a hint to use --previous if only an earlier log exists.
fn previous_hint(
    job: &TrainingJob,
    pods: &[Pod],
    target: &LogTarget,
    without: &NoLog,
) -> &'static str {
    let previous = LogTarget {
        previous: true,
        ..target.clone()
    };
    match without {
        NoLog::Unavailable(_) if select_pods(job, pods, &previous).is_ok() => {
            "; -p shows the logs of the previous attempt, while its pods exist"
        }
        _ => "",
    }
}

const fn message_prefix(is_error: bool) -> &'static str {
    if is_error { "error: " } else { "note: " }
}

/// Writes the pieces unchanged: a log may contain any bytes.
async fn write_pieces(mut pieces: mpsc::Receiver<Vec<u8>>) -> std::io::Result<()> {
    while let Some(piece) = pieces.recv().await {
        if !write_piece(&piece)? {
            break;
        }
    }
    Ok(())
}

/// Returns false if the reader has closed the output.
fn write_piece(piece: &[u8]) -> std::io::Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(piece).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}
