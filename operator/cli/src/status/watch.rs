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
use crate::output::{Format, print, redraw, warn, width};
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
            show(&report, format, shown.is_some())?;
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
                    Some(report) if width().is_some() && is_for_people(format) => {
                        show(report, format, true)?;
                    }
                    _ => {}
                },
            }
        }
        sleep_until(since.checked_add(TOGETHER).unwrap_or(since)).await;
        while changes.next().now_or_never().flatten().is_some() {}
    }
}

const fn is_for_people(format: Option<Format>) -> bool {
    matches!(format, None | Some(Format::Wide))
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

fn show(report: &Report, format: Option<Format>, again: bool) -> anyhow::Result<()> {
    let text = text(report, format, width())?;
    match screen().filter(|_| is_for_people(format)) {
        Some(rows) => redraw(&fitting(&text, rows)),
        None if again && is_for_people(format) => print(&format!("\n{text}")),
        None if again && format == Some(Format::Yaml) => print(&format!("---\n{text}")),
        None => print(&text),
    }
}

/// Rows of the terminal. None: none reads standard output.
fn screen() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_row)).filter(|rows| *rows > 0)
}

/// What of the text fits, so that its head does not run off the screen.
fn fitting(text: &str, rows: usize) -> String {
    let room = rows.saturating_sub(2);
    let lines = text.lines().count();
    if lines <= room {
        return text.to_owned();
    }
    let mut shown: String = text
        .lines()
        .take(room)
        .map(|line| format!("{line}\n"))
        .collect();
    let left = lines.saturating_sub(room);
    shown.push_str(&format!("… {left} more lines\n"));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_stays_on_the_screen() {
        let text = "a\nb\nc\nd\n";
        assert_eq!(fitting(text, 6), text);
        assert_eq!(fitting(text, 5), "a\nb\nc\n… 1 more lines\n");
    }
}
