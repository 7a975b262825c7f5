//! `trellis status --watch`: the report whenever the job or one of its pods changes.

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

use super::{read, report::Report, text};
use crate::cluster::refusal;
use crate::exit::Exit;
use crate::output::{Format, Rounds, warn, width};
use crate::target::Site;

/// Changes within this time are one.
const TOGETHER: Duration = Duration::from_secs(1);
/// On a terminal what is shown is written again so often, for its times.
const TIMES: Duration = Duration::from_secs(5);

/// Shows the job until it has ended, or is gone, or nobody reads any more. Once it was seen, what
/// cannot be reached is waited for; a missing right ends it.
///
/// # Errors
/// If the cluster cannot be asked.
pub async fn run(site: &Site, name: &str, format: Option<Format>) -> anyhow::Result<Exit> {
    let mut shown: Option<Report> = None;
    let mut rounds = Rounds::new(format, TIMES);
    let changes = changes(site, name);
    pin_mut!(changes);
    loop {
        let since = Instant::now();
        let report = match read::report(site, name).await {
            Ok(Some(report)) => report,
            Ok(None) => {
                let gone = match shown {
                    None => format!("{:#}", site.not_there(name)),
                    Some(_) => format!("{name} is gone: somebody has deleted it"),
                };
                warn(&format!("error: {gone}"));
                return Ok(Exit::Not);
            }
            Err(error) if error.is_denied() || !rounds.has_begun() => {
                return Err(read::unread(site, error));
            }
            Err(error) => {
                let why = format!("{:#}", read::unread(site, error));
                if !rounds.lost(&why, Timestamp::now())? {
                    return Ok(Exit::Done);
                }
                sleep(rounds.pause()).await;
                continue;
            }
        };
        let is_news = rounds.found() || shown.as_ref() != Some(&report);
        if is_news && !rounds.seen(text(&report, format, width())?)? {
            return Ok(Exit::Done);
        }
        let status = report.job.status.as_ref();
        let has_ended = status.is_some_and(TrainingJobStatus::has_ended);
        if has_ended {
            return Ok(Exit::Done);
        }
        while timeout(TIMES, changes.next()).await.is_err() {
            if rounds.is_looked_at() && !rounds.seen(text(&report, format, width())?)? {
                return Ok(Exit::Done);
            }
        }
        shown = Some(report);
        sleep_until(since.checked_add(TOGETHER).unwrap_or(since)).await;
        while changes.next().now_or_never().flatten().is_some() {}
    }
}

/// That something has changed, or cannot be watched now: a look says which. What breaks is tried
/// again, ever later; who may not see pods is told of changes of the job alone.
fn changes(site: &Site, name: &str) -> impl futures::Stream<Item = ()> + use<> {
    let client = site.cluster.client();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &site.namespace);
    let own = watcher::Config::default().labels(&format!("{}={name}", names::JOB));
    let pods = watcher(pods, own)
        .default_backoff()
        .filter_map(async |event| match event.map_err(refusal) {
            Ok(_) | Err(None) => Some(()),
            Err(Some(_)) => None,
        });
    let jobs: Api<TrainingJob> = site.jobs();
    let job = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let job = watcher(jobs, job).default_backoff().map(drop);
    futures::stream::select(job.boxed(), pods.boxed())
}
