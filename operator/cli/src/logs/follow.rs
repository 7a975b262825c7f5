//! `trellis logs --follow`: on and on, over restarts, until the job has ended.

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

use super::begun::{Begun, Comes};
use super::choice::{Chosen, Without, choose, container, has_stopped};
use super::unreadable::UnreadableLog;
use super::watched::Watched;
use super::{Options, RIGHTS, WAITING, nothing, pods, put, tail};
use crate::cluster::{Unread, named, refusal};
use crate::exit::Exit;
use crate::output::{Tone, warn};
use crate::status::{pods_of, unseen};
use crate::target::Site;

/// What is known of the job, and whose logs have been begun.
struct Following<'a> {
    site: &'a Site,
    options: &'a Options,
    job: Watched,
    pods: BTreeMap<String, Pod>,
    /// True once all of its pods have been listed: before that nothing is missing.
    is_listed: bool,
    begun: BTreeSet<String>,
    reads: JoinSet<Result<(), UnreadableLog>>,
    /// Tells each read, by the uid of its pod, whether its container has stopped.
    stopped: BTreeMap<String, watch::Sender<bool>>,
    places: Begun,
    /// Some of the pods that are meant have not begun to write.
    awaits: bool,
    told: BTreeSet<String>,
    failed: bool,
}

/// What is to be done next.
enum Next {
    /// More is to come.
    Wait,
    /// All has been shown.
    End,
    /// There is no such pod, and never will be.
    Never,
}

/// Follows the logs until the job has ended.
///
/// # Errors
/// If the cluster cannot be asked.
pub async fn run(site: &Site, name: &str, options: &Options) -> anyhow::Result<Exit> {
    let denied = |error| site.explain(error, "get trainingjobs.trellis.dev");
    let Some(job) = named(&site.jobs(), name).await.map_err(denied)? else {
        warn(&format!("error: {:#}", site.not_there(name)));
        return Ok(Exit::Not);
    };
    let labels = pods_of(&job).label_selector.unwrap_or_default();
    let seen_pods = watcher(pods(site), watcher::Config::default().labels(&labels));
    let own = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let seen_jobs = watcher(site.jobs(), own);
    let (seen_pods, seen_jobs) = (seen_pods.default_backoff(), seen_jobs.default_backoff());
    pin_mut!(seen_pods, seen_jobs);
    let (out, mut pieces) = mpsc::channel::<Vec<u8>>(WAITING);
    let mut following = Following {
        site,
        options,
        job: Watched::of(job),
        pods: BTreeMap::new(),
        is_listed: false,
        begun: BTreeSet::new(),
        reads: JoinSet::new(),
        stopped: BTreeMap::new(),
        places: Begun::default(),
        awaits: false,
        told: BTreeSet::new(),
        failed: false,
    };
    loop {
        tokio::select! {
            // What was read goes out before an end is seen.
            biased;
            Some(piece) = pieces.recv() => {
                if !put(&piece)? {
                    return Ok(Exit::Done);
                }
                continue;
            }
            Some(read) = following.reads.join_next(), if !following.reads.is_empty() => {
                if let Err(failure) = read? {
                    let is_simulated = failure.is_simulated;
                    following.report(failure);
                    if is_simulated && following.reads.is_empty() && !following.awaits {
                        return Ok(Exit::Not);
                    }
                }
            }
            Some(event) = seen_pods.next() => match event.map_err(refusal) {
                Ok(event) => following.see(event),
                Err(Some(error)) => {
                    return Err(unseen(site, Unread::new::<Pod>("watch", error), RIGHTS));
                }
                // It is tried again.
                Err(None) => continue,
            },
            Some(event) = seen_jobs.next() => match event.map_err(refusal) {
                Ok(event) => following.job.see(event),
                Err(Some(error)) => {
                    let error = Unread::new::<TrainingJob>("watch", error);
                    return Err(site.explain(error, "watch trainingjobs.trellis.dev"));
                }
                Err(None) => continue,
            },
        }
        if !following.is_listed {
            continue;
        }
        match following.begin(&out)? {
            Next::Wait => {}
            Next::Never => return Ok(Exit::Not),
            Next::End => {
                // Those that have ended have passed on all that they read.
                while let Ok(piece) = pieces.try_recv() {
                    put(&piece)?;
                }
                return Ok(following.exit());
            }
        }
    }
}

impl Following<'_> {
    fn see(&mut self, event: Event<Pod>) {
        let key = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
        match event {
            Event::Init => {
                self.pods.clear();
                // Until all are there again nothing is missing.
                self.is_listed = false;
            }
            Event::InitApply(pod) | Event::Apply(pod) => {
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                if let Some(stopped) = self.stopped.get(uid) {
                    stopped.send_replace(has_stopped(&pod, container(&self.options.target())));
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
                // The read takes a dropped sender for a container that has stopped.
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                self.stopped.remove(uid);
                self.pods.remove(&key(&pod));
            }
        }
    }

    /// Says why a log cannot be read. All pods of simulated nodes share one line.
    fn report(&mut self, failure: UnreadableLog) {
        // A pod that is replaced takes its log with it.
        self.failed |= !failure.is_gone();
        if !failure.is_simulated || self.told.insert("simulated node".to_owned()) {
            warn(&format!("error: {}", failure.explain(self.site)));
        }
    }

    /// Begins to read the logs that can be read now.
    fn begin(&mut self, out: &mpsc::Sender<Vec<u8>>) -> anyhow::Result<Next> {
        let is_idle = self.reads.is_empty();
        let Some(job) = self.job.now().cloned() else {
            return Ok(if is_idle { Next::End } else { Next::Wait });
        };
        let has_ended = job
            .status
            .as_ref()
            .is_some_and(TrainingJobStatus::has_ended);
        let chosen = match choose(&job, self.pods.values(), &self.options.target()) {
            Ok(chosen) => chosen,
            Err(Without::Never(why)) => {
                warn(&format!("error: {why}"));
                return Ok(Next::Never);
            }
            Err(Without::Now(why)) => {
                // What was followed to its end has been shown, though its pod is gone by now.
                if !has_ended || self.begun.is_empty() {
                    let status = job.status.as_ref();
                    let about = status.map(|status| (status.phase, status.reason));
                    self.say(format!("{about:?}"), &why);
                }
                return Ok(if is_idle && has_ended {
                    Next::End
                } else {
                    Next::Wait
                });
            }
        };
        for chosen in &chosen {
            if self.begun.contains(&chosen.uid) {
                continue;
            }
            if chosen.begun {
                self.read(chosen, out)?;
            } else {
                // That it is on its way, once; what keeps it from it, as it changes.
                let state = &chosen.pod.state;
                let stuck = (state.tone() == Tone::Bad).then_some(&state.state);
                let about = format!("{} {stuck:?}", chosen.uid);
                self.say(about, &nothing::not_begun(chosen));
            }
        }
        let has_begun = |chosen: &Chosen| self.begun.contains(&chosen.uid);
        self.awaits = !chosen.iter().all(has_begun);
        let is_idle = self.reads.is_empty();
        Ok(if is_idle && has_ended {
            Next::End
        } else {
            Next::Wait
        })
    }

    fn read(&mut self, chosen: &Chosen, out: &mpsc::Sender<Vec<u8>>) -> anyhow::Result<()> {
        let most = self.options.max.get();
        if self.reads.len() >= most {
            bail!(
                "more than {most} logs would be followed at once: name a --rank or --group, or allow more by --max"
            );
        }
        let comes = self.places.add(&chosen.pod);
        match comes {
            Comes::WithAttempt => {
                let attempt = chosen.pod.attempt;
                self.told.clear();
                warn(&format!("note: attempt {attempt} begins{}", self.why()));
            }
            Comes::Again if !self.options.all => {
                warn(&format!("note: pod {} has come again", chosen.pod.name));
            }
            Comes::First | Comes::AfterAttempt | Comes::Again => {}
        }
        let mut part = self.options.part();
        if comes != Comes::First {
            // What comes later is shown from its beginning.
            part.tail = None;
            part.since_seconds = None;
        }
        self.begun.insert(chosen.uid.clone());
        let pods = pods(self.site);
        let (chosen, out) = (chosen.clone(), out.clone());
        let prefix = self.options.prefix(&chosen);
        let pod = self.pods.get(&chosen.pod.name);
        let has_stopped = pod.is_some_and(|pod| has_stopped(pod, &chosen.container));
        let (stop, stopped) = watch::channel(has_stopped);
        self.stopped.insert(chosen.uid.clone(), stop);
        let read = tail::read(pods, chosen, part, prefix, Some(stopped), out);
        self.reads.spawn(read);
        Ok(())
    }

    /// What ended the attempt before.
    fn why(&self) -> String {
        let status = self.job.now().and_then(|job| job.status.as_ref());
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

    /// Says what is waited for, once of each cause.
    fn say(&mut self, about: String, why: &str) {
        let is_new = self.told.insert(about);
        // Of another cause in the same words nobody hears more.
        if self.told.insert(why.to_owned()) && is_new {
            warn(&format!("note: {why}"));
        }
    }

    fn exit(&self) -> Exit {
        if self.job.now().is_none() {
            warn("note: the job is gone: somebody has deleted it");
        }
        match self.begun.is_empty() || self.failed {
            true => Exit::Not,
            false => Exit::Done,
        }
    }
}
