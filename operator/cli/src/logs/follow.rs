//! `trellis logs --follow`: follows the logs until the job has ended.
//! It continues across restarts of the job.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use trellis_api::TrainingJob;
use trellis_api::job::TrainingJobStatus;
use trellis_reads::ApiFailure;
use trellis_reads::report::pods_of_job;

use super::no_log::NoLog;
use super::pod_selection::{SelectedPod, container_name, has_stopped, select_pods};
use super::started_logs::{LogStart, StartedLogs};
use super::unreadable_log::UnreadableLog;
use super::watched_job::WatchedJob;
use super::{LogsOptions, QUEUED_PIECES, RIGHTS, log_stream, no_log, pods, write_piece};
use crate::cluster::permanent_error;
use crate::exit::Exit;
use crate::output::warn;
use crate::target::TargetNamespace;

/// State of a followed job: its pods, and the logs that are read.
struct LogFollower<'a> {
    site: &'a TargetNamespace,
    options: &'a LogsOptions,
    job: WatchedJob,
    pods: BTreeMap<String, Pod>,
    /// True after the first complete list of the pods.
    /// Before that, no pod counts as missing.
    is_listed: bool,
    started: BTreeSet<String>,
    reads: JoinSet<Result<(), UnreadableLog>>,
    /// One sender per pod uid.
    /// It tells the reader of the pod whether its container has stopped.
    stopped: BTreeMap<String, watch::Sender<bool>>,
    started_logs: StartedLogs,
    /// True while some of the selected pods have not started to write.
    is_waiting: bool,
    reported: BTreeSet<String>,
    failed: bool,
}

/// The next step of the loop.
enum FollowAction {
    /// More output may follow.
    Wait,
    /// All output has been shown.
    End,
    /// The selected pod does not exist and never will.
    NoSuchPod,
}

/// Follows the logs until the job has ended.
///
/// # Errors
/// If the cluster cannot be reached.
pub async fn run(
    site: &TargetNamespace,
    name: &str,
    options: &LogsOptions,
) -> anyhow::Result<Exit> {
    let Some(job) = site.reader.get_job(name).await? else {
        warn(&format!("error: {:#}", site.reader.not_found_error(name)));
        return Ok(Exit::Negative);
    };
    let labels = pods_of_job(&job).label_selector.unwrap_or_default();
    let seen_pods = watcher(pods(site), watcher::Config::default().labels(&labels));
    let own = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let seen_jobs = watcher(site.reader.jobs(), own);
    let (seen_pods, seen_jobs) = (seen_pods.default_backoff(), seen_jobs.default_backoff());
    pin_mut!(seen_pods, seen_jobs);
    let (out, mut pieces) = mpsc::channel::<Vec<u8>>(QUEUED_PIECES);
    let mut following = LogFollower {
        site,
        options,
        job: WatchedJob::from_job(job),
        pods: BTreeMap::new(),
        is_listed: false,
        started: BTreeSet::new(),
        reads: JoinSet::new(),
        stopped: BTreeMap::new(),
        started_logs: StartedLogs::default(),
        is_waiting: false,
        reported: BTreeSet::new(),
        failed: false,
    };
    loop {
        tokio::select! {
            // Write the received output before handling other events, such as the end of the job.
            biased;
            Some(piece) = pieces.recv() => {
                if !write_piece(&piece)? {
                    return Ok(Exit::Done);
                }
                continue;
            }
            Some(read) = following.reads.join_next(), if !following.reads.is_empty() => {
                if let Err(failure) = read? {
                    let is_simulated = failure.is_simulated;
                    following.report(failure);
                    if is_simulated && following.reads.is_empty() && !following.is_waiting {
                        return Ok(Exit::Negative);
                    }
                }
            }
            Some(event) = seen_pods.next() => match event.map_err(permanent_error) {
                Ok(event) => following.apply_event(event),
                Err(Some(error)) => {
                    return Err(site.reader.explain_core(ApiFailure::new::<Pod>("watch", error), RIGHTS));
                }
                // The watcher retries.
                Err(None) => continue,
            },
            Some(event) = seen_jobs.next() => match event.map_err(permanent_error) {
                Ok(event) => following.job.apply_event(event),
                Err(Some(error)) => {
                    let error = ApiFailure::new::<TrainingJob>("watch", error);
                    return Err(site.reader.explain(error, "watch trainingjobs.trellis.dev"));
                }
                Err(None) => continue,
            },
        }
        if !following.is_listed {
            continue;
        }
        match following.start_reads(&out)? {
            FollowAction::Wait => {}
            FollowAction::NoSuchPod => return Ok(Exit::Negative),
            FollowAction::End => {
                // The readers have ended, and all their output is in the channel.
                while let Ok(piece) = pieces.try_recv() {
                    write_piece(&piece)?;
                }
                return Ok(following.finish());
            }
        }
    }
}

impl LogFollower<'_> {
    fn apply_event(&mut self, event: Event<Pod>) {
        let key = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
        match event {
            Event::Init => {
                self.pods.clear();
                // No pod counts as missing until the new list is complete.
                self.is_listed = false;
            }
            Event::InitApply(pod) | Event::Apply(pod) => {
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                if let Some(stopped) = self.stopped.get(uid) {
                    stopped.send_replace(has_stopped(
                        &pod,
                        container_name(&self.options.to_log_target()),
                    ));
                }
                self.pods.insert(key(&pod), pod);
            }
            Event::InitDone => {
                self.is_listed = true;
                let listed = self.pods.values().filter_map(|p| p.metadata.uid.as_ref());
                let listed: BTreeSet<_> = listed.collect();
                self.stopped.retain(|uid, _| listed.contains(uid));
            }
            Event::Delete(pod) => {
                // The reader treats a dropped sender like a stopped container.
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                self.stopped.remove(uid);
                self.pods.remove(&key(&pod));
            }
        }
    }

    /// Reports why a log cannot be read.
    /// All pods of simulated nodes share one line.
    fn report(&mut self, failure: UnreadableLog) {
        // The log of a replaced pod is gone with the pod, which is not a failure.
        self.failed |= !failure.is_gone();
        if !failure.is_simulated || self.reported.insert("simulated node".to_owned()) {
            warn(&format!("error: {}", failure.explain(self.site)));
        }
    }

    /// Starts to read the logs that are available now.
    fn start_reads(&mut self, out: &mpsc::Sender<Vec<u8>>) -> anyhow::Result<FollowAction> {
        let is_idle = self.reads.is_empty();
        let Some(job) = self.job.current().cloned() else {
            return Ok(if is_idle {
                FollowAction::End
            } else {
                FollowAction::Wait
            });
        };
        let has_ended = job
            .status
            .as_ref()
            .is_some_and(TrainingJobStatus::has_ended);
        let chosen = match select_pods(&job, self.pods.values(), &self.options.to_log_target()) {
            Ok(chosen) => chosen,
            Err(NoLog::Impossible(reason)) => {
                warn(&format!("error: {reason}"));
                return Ok(FollowAction::NoSuchPod);
            }
            Err(NoLog::Unavailable(reason)) => {
                // The log was shown to its end, though its pod is gone now.
                if !has_ended || self.started.is_empty() {
                    let status = job.status.as_ref();
                    let about = status.map(|status| (status.phase, status.reason));
                    self.report_wait(format!("{about:?}"), &reason);
                }
                return Ok(if is_idle && has_ended {
                    FollowAction::End
                } else {
                    FollowAction::Wait
                });
            }
        };
        for chosen in &chosen {
            if self.started.contains(&chosen.uid) {
                continue;
            }
            if chosen.has_started {
                self.start_read(chosen, out)?;
            } else {
                // Report once that the pod is starting, and again whenever its problem changes.
                let state = &chosen.pod.state;
                let problem =
                    (state.health() == trellis_reads::pods::PodHealth::Bad).then_some(&state.state);
                let about = format!("{} {problem:?}", chosen.uid);
                self.report_wait(
                    about,
                    &no_log::explain_not_started(&chosen.pod, &chosen.container),
                );
            }
        }
        let has_begun = |chosen: &SelectedPod| self.started.contains(&chosen.uid);
        self.is_waiting = !chosen.iter().all(has_begun);
        let is_idle = self.reads.is_empty();
        Ok(if is_idle && has_ended {
            FollowAction::End
        } else {
            FollowAction::Wait
        })
    }

    fn start_read(
        &mut self,
        chosen: &SelectedPod,
        out: &mpsc::Sender<Vec<u8>>,
    ) -> anyhow::Result<()> {
        let limit = self.options.max.get();
        if self.reads.len() >= limit {
            bail!(
                "cannot follow more than {limit} logs at once: name a --rank or --group, or raise --max"
            );
        }
        let start = self.started_logs.add_pod(&chosen.pod);
        match start {
            LogStart::NewAttempt => {
                let attempt = chosen.pod.attempt;
                self.reported.clear();
                warn(&format!(
                    "note: attempt {attempt} starts{}",
                    self.describe_failure()
                ));
            }
            LogStart::Replacement if !self.options.all => {
                warn(&format!("note: pod {} was created again", chosen.pod.name));
            }
            LogStart::Initial | LogStart::SameAttempt | LogStart::Replacement => {}
        }
        let mut part = self.options.to_log_range();
        if start != LogStart::Initial {
            // Show the complete log of every later pod.
            part.tail = None;
            part.since_seconds = None;
        }
        self.started.insert(chosen.uid.clone());
        let pods = pods(self.site);
        let (chosen, out) = (chosen.clone(), out.clone());
        let prefix = self.options.line_prefix(&chosen);
        let pod = self.pods.get(&chosen.pod.name);
        let has_stopped = pod.is_some_and(|pod| has_stopped(pod, &chosen.container));
        let (stop, stopped) = watch::channel(has_stopped);
        self.stopped.insert(chosen.uid.clone(), stop);
        let read = log_stream::stream_log(pods, chosen, part, prefix, Some(stopped), out);
        self.reads.spawn(read);
        Ok(())
    }

    /// Describes the failure that ended the previous attempt.
    fn describe_failure(&self) -> String {
        let status = self.job.current().and_then(|job| job.status.as_ref());
        let failure = status.and_then(|status| status.last_failure.as_ref());
        failure.map_or_else(String::new, |failure| {
            let exit = failure.exit_code.map(|code| format!(", exit code {code}"));
            format!(
                ": attempt {} ended by {} of {}{}",
                failure.attempt,
                failure.reason,
                failure.pod,
                exit.unwrap_or_default()
            )
        })
    }

    /// Reports why the command waits, once for each cause.
    fn report_wait(&mut self, about: String, reason: &str) {
        let is_new = self.reported.insert(about);
        // Another cause with the same text needs no second message.
        if self.reported.insert(reason.to_owned()) && is_new {
            warn(&format!("note: {reason}"));
        }
    }

    fn finish(&self) -> Exit {
        if self.job.current().is_none() {
            warn("note: the job was deleted");
        }
        match self.started.is_empty() || self.failed {
            true => Exit::Negative,
            false => Exit::Done,
        }
    }
}
