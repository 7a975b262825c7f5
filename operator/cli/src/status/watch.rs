//! `trellis status --watch`: refreshes the report after every change.
//! Changes of the job and of its pods count.

use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use trellis_api::job::TrainingJobStatus;
use trellis_api::{TrainingJob, names};
use trellis_reads::report::{StatusReport, read_report};

use super::render_report;
use crate::cluster::permanent_error;
use crate::exit::Exit;
use crate::output::{OutputFormat, RefreshLoop, warn, width};
use crate::target::TargetNamespace;

/// Changes within this time cause one refresh.
const DEBOUNCE: Duration = Duration::from_secs(1);
/// Refresh interval on a terminal, so that the displayed times stay current.
const REDRAW_INTERVAL: Duration = Duration::from_secs(5);

/// Shows the job until it has ended or is deleted, or the reader closes the output.
/// After a first success, it retries an unreachable cluster. A missing right ends it.
///
/// # Errors
/// If the cluster cannot be reached.
pub async fn watch_job(
    site: &TargetNamespace,
    name: &str,
    format: Option<OutputFormat>,
) -> anyhow::Result<Exit> {
    let mut last_report: Option<StatusReport> = None;
    let mut rounds = RefreshLoop::new(format, REDRAW_INTERVAL);
    let changes = watch_changes(site, name);
    pin_mut!(changes);
    loop {
        let since = Instant::now();
        let report = match read_report(&site.reader, name).await {
            Ok(Some(report)) => report,
            Ok(None) => {
                let reason = match last_report {
                    None => format!("{:#}", site.reader.not_found_error(name)),
                    Some(_) => format!("{name} was deleted"),
                };
                warn(&format!("error: {reason}"));
                return Ok(Exit::Negative);
            }
            Err(error) if error.is_denied() || !rounds.has_shown() => {
                return Err(error.message);
            }
            Err(error) => {
                let problem = error.to_string();
                if !rounds.show_outage(&problem, Timestamp::now())? {
                    return Ok(Exit::Done);
                }
                sleep(rounds.next_pause()).await;
                continue;
            }
        };
        let is_news = rounds.end_outage() || last_report.as_ref() != Some(&report);
        if is_news && !rounds.show(render_report(&report, format, width())?)? {
            return Ok(Exit::Done);
        }
        let status = report.job.status.as_ref();
        let has_ended = status.is_some_and(TrainingJobStatus::has_ended);
        if has_ended {
            return Ok(Exit::Done);
        }
        while timeout(REDRAW_INTERVAL, changes.next()).await.is_err() {
            if rounds.is_interactive() && !rounds.show(render_report(&report, format, width())?)? {
                return Ok(Exit::Done);
            }
        }
        last_report = Some(report);
        sleep_until(since.checked_add(DEBOUNCE).unwrap_or(since)).await;
        while changes.next().now_or_never().flatten().is_some() {}
    }
}

/// Yields an item after every change, and after every transient error of a watch.
/// The next read shows which of both happened. Errors are retried with a growing delay. If the user
/// may not see pods, only changes of the job count.
fn watch_changes(site: &TargetNamespace, name: &str) -> impl futures::Stream<Item = ()> + use<> {
    let client = site.cluster.client();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &site.reader.namespace);
    let own = watcher::Config::default().labels(&format!("{}={name}", names::JOB));
    let pods = watcher(pods, own)
        .default_backoff()
        .filter_map(async |event| match event.map_err(permanent_error) {
            Ok(_) | Err(None) => Some(()),
            Err(Some(_)) => None,
        });
    let jobs: Api<TrainingJob> = site.reader.jobs();
    let job = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let job = watcher(jobs, job).default_backoff().map(drop);
    futures::stream::select(job.boxed(), pods.boxed())
}
