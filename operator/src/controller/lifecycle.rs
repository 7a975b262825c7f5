//! What a job is, and what is wanted next: a pure function of spec, status,
//! journal and pods. The reconciler writes what it says, and nothing else.
//!
//! The order of a restart makes it count once: first the status with the new
//! attempt, then the pods of the old one go. However many ranks die together,
//! and whenever the operator does, the attempt in status decides.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::Reason;
use trellis_api::condition::Verdict;
use trellis_api::job::{
    JobPhase, LastFailure, PodCleanup, PodCounts, RestartScope, SuccessPolicy, TrainingJobSpec,
    TrainingJobStatus,
};
use trellis_api::pod_group::{PodGroupPhase, PodGroupStatus};

use super::failure::{self, Fault};
use crate::watch::{PodPhase, PodView};
use crate::world::Certificate;

/// `restart.limit` where none is given.
pub const DEFAULT_LIMIT: i64 = 3;
/// `restart.disruptionLimit` where none is given.
pub const DEFAULT_DISRUPTION_LIMIT: i64 = 100;
/// `restart.backoffSeconds` where none is given.
pub const DEFAULT_BACKOFF: i64 = 10;
/// `restart.maxBackoffSeconds` where none is given.
pub const DEFAULT_MAX_BACKOFF: i64 = 300;
/// `deadlines.startupSeconds` where none is given.
pub const DEFAULT_STARTUP: i64 = 1800;
/// `cleanup.ttlSeconds` where none is given.
pub const DEFAULT_TTL: i64 = 86_400;
/// A gang that is still being created after this long shows in status as such.
const COMMIT_SHOWN_AFTER: SignedDuration = SignedDuration::from_secs(2);

/// What the job's spec has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Valid, compiled, authorized: it may run. The hash is that of what it was compiled into.
    Runnable {
        /// Hash of the compiled job.
        compiled: String,
    },
    /// Refused, waiting or blocked, and why.
    Held {
        /// Refused, Waiting or Blocked.
        phase: JobPhase,
        /// Why.
        reason: Reason,
        /// The same in words.
        message: String,
    },
}

/// What is seen of one job.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// The time.
    pub now: Timestamp,
    /// When the job was created.
    pub created: Timestamp,
    /// Generation of the spec.
    pub generation: Option<i64>,
    /// Uid of the job.
    pub uid: &'a str,
    /// The spec.
    pub spec: &'a TrainingJobSpec,
    /// The status as it is.
    pub status: &'a TrainingJobStatus,
    /// What the spec has come to.
    pub standing: &'a Standing,
    /// Queue that the job is in, once that is known.
    pub queue: Option<&'a str>,
    /// The journal.
    pub journal: &'a PodGroupStatus,
    /// Pods with the job's name.
    pub pods: &'a BTreeMap<String, PodView>,
    /// Nodes that are lost.
    pub lost: &'a dyn Fn(&str) -> bool,
    /// Why the gang waits, if the scheduler has said so.
    pub certificate: Option<&'a Certificate>,
}

/// What is wanted of the gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// The attempt runs.
    Run {
        /// Its number.
        attempt: i64,
        /// Its place in the queue.
        submitted: Timestamp,
        /// Not placed before.
        not_before: Option<Timestamp>,
    },
    /// Nothing new is placed; what has its place keeps it.
    Wait,
    /// The gang holds nothing.
    Stop,
    /// The job has ended.
    Finish {
        /// Finished pods stay.
        keep: bool,
    },
}

/// What is to be written and wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// The new status, without `compiled`. None: nothing is to be said yet.
    pub status: Option<TrainingJobStatus>,
    /// What is wanted of the gang, once the status is written.
    pub want: Want,
    /// Look again then, if nothing happens before.
    pub again: Option<Timestamp>,
    /// Everything that the job made is to be removed.
    pub expired: bool,
}

/// What is to be written and wanted now.
#[must_use]
pub fn next(o: Observed<'_>) -> Next {
    Turn::new(o).run()
}

/// One evaluation: the observed job and the status in the making.
struct Turn<'a> {
    o: Observed<'a>,
    status: TrainingJobStatus,
    again: Option<Timestamp>,
}

fn after(at: Timestamp, seconds: i64) -> Timestamp {
    at.saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs().max(0)
}

impl<'a> Turn<'a> {
    fn new(o: Observed<'a>) -> Self {
        let mut status = o.status.clone();
        status.observed_generation = o.generation;
        status.attempt = Some(status.attempt.unwrap_or(1));
        status.restarts = Some(status.restarts.unwrap_or(0));
        status.disruptions = Some(status.disruptions.unwrap_or(0));
        status.queued_time = Some(status.queued_time.unwrap_or(Time(o.created)));
        status.gpus = Some(i64::from(o.spec.gpu_count()));
        if let Some(queue) = o.queue {
            status.queue = Some(queue.to_owned());
        }
        Self {
            o,
            status,
            again: None,
        }
    }

    fn run(mut self) -> Next {
        if self.o.status.phase.is_some_and(JobPhase::is_terminal) {
            return self.terminal();
        }
        let phase = self.o.journal.phase.unwrap_or_default();
        let placed = matches!(phase, PodGroupPhase::Committing | PodGroupPhase::Placed);
        if placed && self.status.admitted_time.is_none() && !self.spec_changed_in_commit() {
            self.status.admitted_time = Some(Time(self.o.now));
        }
        if self.o.spec.is_suspended() {
            return self.suspended();
        }
        if self.o.status.phase == Some(JobPhase::Suspended) {
            self.resume();
        }
        let current = self
            .o
            .journal
            .plan
            .as_ref()
            .is_some_and(|p| p.attempt == self.attempt());
        match phase {
            PodGroupPhase::Placed if current && !self.spec_changed_in_commit() => self.placed(),
            PodGroupPhase::Committing if current && !self.spec_changed_in_commit() => {
                self.committing()
            }
            _ => self.waiting(),
        }
    }

    fn attempt(&self) -> i64 {
        self.status.attempt.unwrap_or(1)
    }

    /// Before its first place every field may change. A change that comes
    /// while the first plan is being carried out undoes that plan.
    fn spec_changed_in_commit(&self) -> bool {
        let planned = self.o.journal.plan.as_ref().map(|p| p.compiled.as_str());
        match (self.o.standing, planned) {
            (Standing::Runnable { compiled }, Some(planned)) => {
                self.o.status.admitted_time.is_none() && compiled != planned
            }
            _ => false,
        }
    }

    fn look_again(&mut self, at: Timestamp) {
        self.again = Some(self.again.map_or(at, |a| a.min(at)));
    }

    fn say(
        mut self,
        phase: JobPhase,
        reason: Reason,
        message: impl Into<String>,
        want: Want,
    ) -> Next {
        let message = message.into();
        let quota_reserved = matches!(
            self.o.journal.phase,
            Some(PodGroupPhase::Committing | PodGroupPhase::Placed | PodGroupPhase::Unwinding)
        );
        if phase != JobPhase::Running {
            self.stop_clock();
        }
        self.count_pods();
        let verdict = Verdict {
            phase,
            reason,
            message: message.clone(),
            quota_reserved,
            scheduled: self.o.journal.phase == Some(PodGroupPhase::Placed),
        };
        self.status.conditions = verdict.conditions(
            self.o.generation,
            &Time(self.o.now),
            &self.o.status.conditions,
        );
        self.status.phase = Some(phase);
        self.status.reason = Some(reason);
        self.status.message = Some(message);
        Next {
            status: Some(self.status),
            want,
            again: self.again,
            expired: false,
        }
    }

    /// Running time ends: what the attempt ran for is added up.
    fn stop_clock(&mut self) {
        if let Some(since) = self.status.running_time.take() {
            let ran = seconds_between(since.0, self.o.now);
            self.status.active_seconds =
                Some(self.status.active_seconds.unwrap_or(0).saturating_add(ran));
        }
    }

    fn count_pods(&mut self) {
        let total = i64::from(self.o.spec.pod_count());
        let mut counts = PodCounts {
            total,
            ..PodCounts::default()
        };
        let mut nodes = std::collections::BTreeSet::new();
        for pod in self.members() {
            match pod.phase {
                PodPhase::Pending => {}
                PodPhase::Running => counts.running = counts.running.saturating_add(1),
                PodPhase::Succeeded => counts.succeeded = counts.succeeded.saturating_add(1),
                PodPhase::Refused { .. } | PodPhase::Failed { .. } => {
                    counts.failed = counts.failed.saturating_add(1);
                }
            }
            nodes.extend(pod.node.as_deref());
        }
        let ready = counts.running.saturating_add(counts.succeeded);
        let nodes = i64::try_from(nodes.len()).unwrap_or(i64::MAX);
        self.status.ready = Some(format!("{ready}/{total}"));
        self.status.pods = Some(counts);
        self.status.nodes = Some(nodes);
    }

    /// The pods of the current attempt.
    fn members(&self) -> impl Iterator<Item = &'a PodView> + use<'a> {
        let attempt = self.attempt();
        let uid = self.o.uid;
        self.o
            .pods
            .values()
            .filter(move |p| p.job_uid == uid && p.attempt == attempt)
    }

    fn terminal(self) -> Next {
        let cleanup = self.o.spec.cleanup.clone().unwrap_or_default();
        let ended = self
            .o
            .status
            .completion_time
            .as_ref()
            .map_or(self.o.now, |t| t.0);
        let expiry = after(ended, cleanup.ttl_seconds.unwrap_or(DEFAULT_TTL));
        let expired = expiry <= self.o.now;
        let policy = if self.o.status.phase == Some(JobPhase::Complete) {
            cleanup.pods_on_success
        } else {
            cleanup.pods_on_failure
        };
        Next {
            status: None,
            want: Want::Finish {
                keep: !expired && policy.unwrap_or_default() == PodCleanup::Keep,
            },
            again: (!expired).then_some(expiry),
            expired,
        }
    }

    fn suspended(self) -> Next {
        let held = !matches!(
            self.o.journal.phase,
            None | Some(PodGroupPhase::Pending | PodGroupPhase::Finished)
        );
        let pods = self
            .o
            .pods
            .values()
            .filter(|p| p.job_uid == self.o.uid)
            .count();
        if held || pods > 0 {
            let message = format!("suspending: {pods} pods are still there");
            return self.say(
                JobPhase::Restarting,
                Reason::PodsTerminating,
                message,
                Want::Stop,
            );
        }
        self.say(
            JobPhase::Suspended,
            Reason::Suspended,
            "spec.suspend is true",
            Want::Stop,
        )
    }

    /// To go on after a suspension is a new attempt, at the end of its priority.
    fn resume(&mut self) {
        if self.status.admitted_time.is_some() {
            self.status.attempt = Some(self.attempt().saturating_add(1));
        }
        self.status.queued_time = Some(Time(self.o.now));
        self.status.retry_time = None;
        self.status.scheduled_time = None;
    }

    fn run_wish(&self) -> Want {
        let retry = self.status.retry_time.as_ref().map(|t| t.0);
        Want::Run {
            attempt: self.attempt(),
            submitted: self
                .status
                .queued_time
                .as_ref()
                .map_or(self.o.created, |t| t.0),
            not_before: retry.filter(|t| *t > self.o.now),
        }
    }

    /// No place, or none for this attempt.
    fn waiting(mut self) -> Next {
        if let Standing::Held {
            phase,
            reason,
            message,
        } = self.o.standing
        {
            return self.say(*phase, *reason, message, Want::Wait);
        }
        let want = self.run_wish();
        let leaving = self
            .o
            .pods
            .values()
            .filter(|p| p.job_uid == self.o.uid)
            .count();
        let unwinding =
            self.o.journal.phase == Some(PodGroupPhase::Unwinding) || self.o.journal.plan.is_some();
        if leaving > 0 || unwinding {
            let (reason, message) = match (&self.o.journal.reason, &self.o.status.reason) {
                (Some(reason), _) => (*reason, self.o.journal.message.clone().unwrap_or_default()),
                (None, Some(reason)) if self.o.status.phase == Some(JobPhase::Restarting) => {
                    (*reason, self.o.status.message.clone().unwrap_or_default())
                }
                _ => (
                    Reason::PodsTerminating,
                    "pods of an earlier attempt are still there".to_owned(),
                ),
            };
            return self.say(JobPhase::Restarting, reason, message, want);
        }
        let waits_since = self
            .status
            .last_failure
            .as_ref()
            .map(|f| f.time.0)
            .into_iter()
            .chain(self.status.queued_time.as_ref().map(|t| t.0))
            .max()
            .unwrap_or(self.o.created);
        if let Some(limit) = self.o.spec.deadlines.as_ref().and_then(|d| d.queue_seconds) {
            let deadline = after(waits_since, limit);
            if deadline <= self.o.now {
                let message = format!("not placed within deadlines.queueSeconds = {limit} s");
                return self.fail(Reason::QueueDeadlineExceeded, message);
            }
            self.look_again(deadline);
        }
        let retry = self.status.retry_time.as_ref().map(|t| t.0);
        if let Some(retry) = retry.filter(|t| *t > self.o.now) {
            self.look_again(retry);
            let message = format!("attempt {} is placed after {retry}", self.attempt());
            return self.say(JobPhase::Queued, Reason::BackingOff, message, want);
        }
        let failed_commit = self.o.journal.reason.filter(|_| {
            self.o
                .journal
                .retry_time
                .as_ref()
                .is_some_and(|t| t.0 > self.o.now)
        });
        match (failed_commit, self.o.certificate) {
            (Some(reason), _) => {
                let message = self.o.journal.message.clone().unwrap_or_default();
                self.say(JobPhase::Queued, reason, message, want)
            }
            (None, Some(certificate)) => self.say(
                JobPhase::Queued,
                certificate.reason,
                certificate.message.clone(),
                want,
            ),
            // The scheduler answers within milliseconds: no write for that long.
            (None, None) => Next {
                status: None,
                want,
                again: self.again,
                expired: false,
            },
        }
    }

    fn committing(mut self) -> Next {
        let want = self.run_wish();
        let started = self
            .o
            .journal
            .plan
            .as_ref()
            .and_then(|p| p.deadline.as_ref())
            .map_or(self.o.now, |d| d.0)
            .saturating_sub(crate::scheduling::PLAN_TIME)
            .unwrap_or(Timestamp::MIN);
        let shown = started
            .saturating_add(COMMIT_SHOWN_AFTER)
            .unwrap_or(Timestamp::MAX);
        if shown > self.o.now {
            return Next {
                status: None,
                want,
                again: Some(shown),
                expired: false,
            };
        }
        self.look_again(after(self.o.now, 5));
        self.say(
            JobPhase::Starting,
            Reason::Committing,
            "the pods are being created",
            want,
        )
    }

    fn placed(mut self) -> Next {
        if self.status.scheduled_time.is_none() {
            self.status.scheduled_time = Some(Time(self.o.now));
        }
        self.status.retry_time = None;
        if let Some(message) = self.succeeded() {
            self.end();
            return self.say(
                JobPhase::Complete,
                Reason::Complete,
                message,
                Want::Finish { keep: true },
            );
        }
        let members: BTreeMap<&str, &PodView> = self
            .o
            .pods
            .iter()
            .filter(|(_, p)| p.job_uid == self.o.uid && p.attempt == self.attempt())
            .map(|(name, pod)| (name.as_str(), pod))
            .collect();
        if let Some(fault) = failure::first(&members, self.o.journal.plan.as_ref(), self.o.lost) {
            return self.failed(fault);
        }
        let total = usize::try_from(self.o.spec.pod_count()).unwrap_or(usize::MAX);
        let up = members
            .values()
            .filter(|p| matches!(p.phase, PodPhase::Running | PodPhase::Succeeded))
            .count();
        let want = self.run_wish();
        let was_running = self.o.status.phase == Some(JobPhase::Running);
        if up >= total || was_running {
            return self.running(want);
        }
        let startup = self
            .o
            .spec
            .deadlines
            .as_ref()
            .and_then(|d| d.startup_seconds)
            .unwrap_or(DEFAULT_STARTUP);
        let since = self
            .status
            .scheduled_time
            .as_ref()
            .map_or(self.o.now, |t| t.0);
        let deadline = after(since, startup);
        if deadline <= self.o.now {
            let slow = members
                .iter()
                .find(|(_, p)| p.phase == PodPhase::Pending)
                .map_or("", |(name, _)| *name);
            return self.failed(Fault {
                pod: slow.to_owned(),
                node: members.get(slow).and_then(|p| p.node.clone()),
                exit_code: None,
                reason: Reason::StartupTimeout,
                word: Reason::StartupTimeout.as_str().to_owned(),
                message: format!(
                    "{up} of {total} pods ran within deadlines.startupSeconds = {startup} s"
                ),
                disruption: false,
            });
        }
        self.look_again(deadline);
        self.say(
            JobPhase::Starting,
            Reason::Starting,
            format!(
                "waits for {} of {total} pods to run",
                total.saturating_sub(up)
            ),
            want,
        )
    }

    fn running(mut self, want: Want) -> Next {
        let since = self.status.running_time.get_or_insert(Time(self.o.now)).0;
        if let Some(limit) = self
            .o
            .spec
            .deadlines
            .as_ref()
            .and_then(|d| d.active_seconds)
        {
            let before = self.status.active_seconds.unwrap_or(0);
            let deadline = after(since, limit.saturating_sub(before));
            if deadline <= self.o.now {
                let message = format!("ran longer than deadlines.activeSeconds = {limit} s");
                return self.fail(Reason::ActiveDeadlineExceeded, message);
            }
            self.look_again(deadline);
        }
        self.say(JobPhase::Running, Reason::Running, "all pods run", want)
    }

    /// The sentence of success, if the job has succeeded.
    fn succeeded(&self) -> Option<String> {
        let policy = self
            .o
            .spec
            .success
            .as_ref()
            .and_then(|s| s.policy)
            .unwrap_or_default();
        let done: Vec<_> = self
            .members()
            .filter(|p| p.phase == PodPhase::Succeeded)
            .collect();
        match policy {
            SuccessPolicy::All => {
                let total = usize::try_from(self.o.spec.pod_count()).ok()?;
                (done.len() == total).then(|| format!("all {total} pods have succeeded"))
            }
            SuccessPolicy::Any => done
                .first()
                .map(|p| format!("pod {} of group {:?} has succeeded", p.index, p.group)),
            SuccessPolicy::Leader => {
                let leader = trellis_compiler::leader_group(self.o.spec)?;
                done.iter()
                    .any(|p| p.group == leader && p.index == 0)
                    .then(|| format!("rank 0, pod 0 of group {leader:?}, has succeeded"))
            }
        }
    }

    /// An attempt has failed: the next one, or the end.
    fn failed(mut self, fault: Fault) -> Next {
        self.status.last_failure = Some(LastFailure {
            pod: fault.pod.clone(),
            node: fault.node.clone(),
            exit_code: fault.exit_code,
            reason: fault.word.clone(),
            attempt: self.attempt(),
            time: Time(self.o.now),
        });
        let restart = self.o.spec.restart.clone().unwrap_or_default();
        if restart.scope == Some(RestartScope::Never) {
            let message = format!("{}; restart.scope is Never", fault.message);
            return self.fail(Reason::NoRestart, message);
        }
        let (count, limit, name, end) = if fault.disruption {
            (
                &mut self.status.disruptions,
                restart.disruption_limit.unwrap_or(DEFAULT_DISRUPTION_LIMIT),
                "restart.disruptionLimit",
                Reason::DisruptionLimitReached,
            )
        } else {
            (
                &mut self.status.restarts,
                restart.limit.unwrap_or(DEFAULT_LIMIT),
                "restart.limit",
                Reason::RestartLimitReached,
            )
        };
        let used = count.unwrap_or(0);
        if used >= limit {
            return self.fail(
                end,
                format!("{}; {name} = {limit} is used up", fault.message),
            );
        }
        *count = Some(used.saturating_add(1));
        // A fault of the cluster says nothing about the job: it starts again at once.
        let wait = if fault.disruption {
            0
        } else {
            let first = restart.backoff_seconds.unwrap_or(DEFAULT_BACKOFF);
            let most = restart.max_backoff_seconds.unwrap_or(DEFAULT_MAX_BACKOFF);
            let doubled = i64::from(2).saturating_pow(u32::try_from(used).unwrap_or(u32::MAX));
            first.saturating_mul(doubled).min(most)
        };
        self.status.attempt = Some(self.attempt().saturating_add(1));
        self.status.retry_time = (wait > 0).then(|| Time(after(self.o.now, wait)));
        self.status.scheduled_time = None;
        let want = self.run_wish();
        self.say(JobPhase::Restarting, fault.reason, fault.message, want)
    }

    fn end(&mut self) {
        self.status.completion_time = Some(Time(self.o.now));
        self.status.retry_time = None;
    }

    fn fail(mut self, reason: Reason, message: String) -> Next {
        self.end();
        self.say(
            JobPhase::Failed,
            reason,
            message,
            Want::Finish { keep: true },
        )
    }
}
