//! `trellis status --watch`: the report whenever the job or one of its pods changes.

use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use tokio::time::{Instant, sleep_until, timeout};
use trellis_api::job::TrainingJobStatus;
use trellis_api::{TrainingJob, names};

use super::{read, report::Report, text};
use crate::exit::Exit;
use crate::output::{Format, Screen, warn, width};
use crate::target::Site;

/// Changes within this time are one.
const TOGETHER: Duration = Duration::from_secs(1);
/// On a terminal what is shown is written again so often, for its times.
const TIMES: Duration = Duration::from_secs(5);

/// Shows the job until it has ended, or is gone.
///
/// # Errors
/// If the cluster cannot be asked.
pub async fn run(site: &Site, name: &str, format: Option<Format>) -> anyhow::Result<Exit> {
    let mut shown: Option<Report> = None;
    let mut screen = Screen::new(format);
    let changes = changes(site, name);
    pin_mut!(changes);
    loop {
        let since = Instant::now();
        let Some(report) = read::report(site, name).await? else {
            let gone = match shown {
                None => format!("{:#}", site.not_there(name)),
                Some(_) => format!("{name} is gone: somebody has deleted it"),
            };
            warn(&format!("error: {gone}"));
            return Ok(Exit::Not);
        };
        if shown.as_ref() != Some(&report) {
            screen.show(&text(&report, format, width())?)?;
        }
        let status = report.job.status.as_ref();
        let has_ended = status.is_some_and(TrainingJobStatus::has_ended);
        shown = Some(report);
        if has_ended {
            return Ok(Exit::Done);
        }
        loop {
            match timeout(TIMES, changes.next()).await {
                Ok(_) => break,
                Err(_) => match &shown {
                    Some(report) if screen.is_looked_at() => {
                        screen.show(&text(report, format, width())?)?;
                    }
                    _ => {}
                },
            }
        }
        sleep_until(since.checked_add(TOGETHER).unwrap_or(since)).await;
        while changes.next().now_or_never().flatten().is_some() {}
    }
}

/// That something has changed. What breaks on the way is tried again; who may not see pods is
/// told of changes of the job alone.
fn changes(site: &Site, name: &str) -> impl futures::Stream<Item = ()> + use<> {
    let client = site.cluster.client();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &site.namespace);
    let own = watcher::Config::default().labels(&format!("{}={name}", names::JOB));
    let pods = watcher(pods, own)
        .default_backoff()
        .filter_map(async |event| event.is_ok().then_some(()));
    let jobs: Api<TrainingJob> = site.jobs();
    let job = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let job = watcher(jobs, job)
        .default_backoff()
        .filter_map(async |event| event.is_ok().then_some(()));
    futures::stream::select(job.boxed(), pods.boxed())
}
