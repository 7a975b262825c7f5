//! What a job is, and what is wanted next: a pure function of spec, status,
//! journal and pods. The reconciler writes what it says, and nothing else.
//!
//! The order of a restart makes it count once: first the status with the new
//! attempt, then the pods of the old one go. However many ranks die together,
//! and whenever the operator does, the attempt in status decides.

mod awaited;
mod checkpoint;
mod committing;
mod ended;
mod evicted;
mod excluded;
mod failed;
mod finished;
mod placed;
mod recovered;
mod staged;
mod starting;
mod staying;
mod suspended;
#[cfg(test)]
mod tests;
mod types;
mod waiting;

pub(in crate::controller) use awaited::Awaited;
pub use excluded::avoid_for;
pub(in crate::controller) use finished::Finished;
pub use types::{Next, Observed, Standing};

use std::borrow::Cow;
use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::Reason;
use trellis_api::condition::Verdict;
use trellis_api::job::{JobPhase, PodCounts, TrainingJobSpec, TrainingJobStatus};
use trellis_api::pod_group::PodGroupPhase;

use crate::scheduling::{Attempt, Wish, has_all, makes_room};
use crate::watch::{PodPhase, PodView};

/// What is to be written and wanted now.
#[must_use]
pub fn next(o: Observed<'_>) -> Next {
    Evaluation::new(o).run()
}

/// One evaluation: the observed job and the status in the making.
struct Evaluation<'a> {
    o: Observed<'a>,
    status: TrainingJobStatus,
    again: Option<Timestamp>,
    /// An unhealthy node that the gang does not leave yet: the reason, where it lasts, and words.
    staying: Option<(Option<Reason>, String)>,
    /// Pods that come while the others are there, as the status says it now.
    awaited: Awaited,
    /// The spec of the stage that it is at, or about to be.
    spec: Cow<'a, TrainingJobSpec>,
    /// The job's pods with their names, in whatever attempt: of a thousand each is asked often.
    own: Vec<(&'a str, &'a PodView)>,
}

fn after(at: Timestamp, seconds: i64) -> Timestamp {
    at.saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs().max(0)
}

impl<'a> Evaluation<'a> {
    fn new(o: Observed<'a>) -> Self {
        let mut status = o.status.clone();
        status.observed_generation = o.generation;
        status.attempt = Some(status.attempt.unwrap_or(1));
        status.restarts = Some(status.restarts.unwrap_or(0));
        status.disruptions = Some(status.disruptions.unwrap_or(0));
        status.stage = staged::stage(&o);
        status.queued_time = Some(status.queued_time.unwrap_or(Time(o.created)));
        status.gpus = Some(i64::from(o.spec.gpu_count()));
        if let Some(queue) = o.queue {
            status.queue = Some(queue.to_owned());
        }
        let own = o.pods.iter().filter(|(_, pod)| pod.job_uid == o.uid);
        let mut evaluation = Self {
            o,
            status,
            again: None,
            staying: None,
            awaited: Awaited::default(),
            spec: Cow::Borrowed(o.spec),
            own: own.map(|(name, pod)| (name.as_str(), pod)).collect(),
        };
        let awaited = evaluation.awaited_pods();
        evaluation.set_awaited(awaited);
        evaluation
    }

    fn run(mut self) -> Next {
        if self.o.status.has_ended() {
            return self.terminal();
        }
        if let Some(at) = self.next_tried() {
            self.look_again(at);
        }
        let phase = self.o.journal.phase.unwrap_or_default();
        let admitted = matches!(phase, PodGroupPhase::Committing | PodGroupPhase::Placed);
        if admitted && self.status.admitted_time.is_none() && !self.spec_changed_in_commit() {
            self.status.admitted_time = Some(Time(self.o.now));
        }
        if self.o.spec.is_suspended() {
            return self.suspended();
        }
        if self.o.status.phase == Some(JobPhase::Suspended) {
            return self.resumed();
        }
        let current = self
            .o
            .journal
            .plan
            .as_ref()
            .is_some_and(|p| p.attempt == self.attempt());
        if self.status.scheduled_time.is_some() && !current {
            if self.o.has_journal {
                return self.lost_its_journal();
            }
            if matches!(self.o.standing, Standing::Runnable { .. }) {
                return self.awaits_its_journal();
            }
        }
        match phase {
            PodGroupPhase::Placed if current && !self.spec_changed_in_commit() => self.placed(),
            PodGroupPhase::Committing if current && !self.spec_changed_in_commit() => {
                if self.has_run() {
                    self.placed()
                } else {
                    self.committing()
                }
            }
            // The plan was carried out while the spec changed: it is for no one.
            PodGroupPhase::Placed if current => self.say(
                JobPhase::Restarting,
                Reason::Restarting,
                "the spec has changed since the gang was planned",
                Wish::Stop {
                    reason: Reason::Restarting,
                    hurry: true,
                },
            ),
            PodGroupPhase::Unwinding if current && makes_room(self.o.journal) => self.made_room(),
            _ => self.waiting(),
        }
    }

    /// All pods of the plan have been there, and ended, before it was said that they are there.
    fn has_run(&self) -> bool {
        let over = |pod: &PodView| pod.phase.is_over();
        let plan = self.o.journal.plan.as_ref();
        plan.is_some_and(|plan| has_all(plan, self.o.uid, self.o.pods, &[], over))
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
        wish: Wish<Attempt>,
    ) -> Next {
        let message = message.into();
        let quota_reserved = matches!(
            self.o.journal.phase,
            Some(
                PodGroupPhase::Nominated
                    | PodGroupPhase::Committing
                    | PodGroupPhase::Placed
                    | PodGroupPhase::Unwinding
            )
        );
        if phase != JobPhase::Running {
            self.stop_clock();
        }
        self.count_pods(phase.is_terminal());
        // Of another attempt by now, perhaps.
        let awaited = self.awaited_pods();
        self.set_awaited(awaited);
        if phase.is_terminal() {
            self.status.awaited_pods = None;
        }
        self.note_checkpoint();
        let verdict = Verdict {
            phase,
            reason,
            message: message.clone(),
            quota_reserved,
            scheduled: match self.o.journal.phase {
                Some(PodGroupPhase::Placed) => true,
                Some(PodGroupPhase::Committing) => self.has_run(),
                _ => false,
            },
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
            wish,
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

    /// Of a job that has ended nothing runs: what still does is being stopped,
    /// and nobody counts again.
    fn count_pods(&mut self, ended: bool) {
        let total = i64::from(self.spec.pod_count());
        let mut counts = PodCounts {
            total,
            ..PodCounts::default()
        };
        let mut nodes = BTreeSet::new();
        for pod in self.members() {
            match pod.phase {
                PodPhase::Pending => {}
                PodPhase::Running if ended => {}
                PodPhase::Running => counts.running = counts.running.saturating_add(1),
                PodPhase::Succeeded => {}
                PodPhase::Refused { .. } | PodPhase::Failed { .. } => {
                    counts.failed = counts.failed.saturating_add(1);
                }
            }
            if !ended {
                nodes.extend(pod.node.as_deref());
            }
        }
        let finished = self.finished();
        counts.succeeded = i64::try_from(finished.completed()).unwrap_or(i64::MAX);
        self.status.finished_pods = finished.status(self.attempt());
        let ready = counts.running.saturating_add(counts.succeeded);
        let nodes = i64::try_from(nodes.len()).unwrap_or(i64::MAX);
        self.status.ready = Some(format!("{ready}/{total}"));
        self.status.pods = Some(counts);
        self.status.nodes = Some(nodes);
    }

    /// The pods of the current attempt, without those in whose place others are awaited.
    fn members<'s>(&'s self) -> impl Iterator<Item = &'a PodView> + use<'a, 's> {
        self.named_members().map(|(_, pod)| pod)
    }

    /// The same with their names.
    fn named_members<'s>(&'s self) -> impl Iterator<Item = (&'a str, &'a PodView)> + use<'a, 's> {
        let attempt = self.attempt();
        let of_now = self.own.iter().filter(move |(_, p)| p.attempt == attempt);
        of_now.filter(|(_, pod)| !self.awaited.is_old(pod)).copied()
    }

    fn wish_to_run(&self) -> Wish<Attempt> {
        let retry = self.status.retry_time.as_ref().map(|t| t.0);
        Wish::Run(Attempt {
            number: self.attempt(),
            submitted: self
                .status
                .queued_time
                .as_ref()
                .map_or(self.o.created, |t| t.0),
            not_before: retry.filter(|t| *t > self.o.now),
            excluded: self.kept_away_from(|reason| reason == Reason::KubeletRefused),
            suspects: self.kept_away_from(|reason| reason != Reason::KubeletRefused),
            hurry: self.was_hurried(self.attempt().saturating_sub(1)),
            checkpoint: self.last_checkpoint(),
            awaited: self.awaited_pods(),
        })
    }
}
