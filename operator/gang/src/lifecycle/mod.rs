//! Evaluates a job: computes its next status and wish as a pure function of spec, status, journal
//! and pods. The reconciler writes the result, and nothing else.
//!
//! A restart counts once because of its order: first the status with the new attempt is written,
//! then the pods of the old attempt are deleted. However many ranks fail together, and whenever the
//! operator fails, the attempt in the status decides.

mod ailing;
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
mod roster;
mod staged;
mod starting;
mod staying;
mod suspended;
#[cfg(test)]
mod tests;
mod types;
mod waiting;

pub(crate) use ailing::AilingNodes;
pub(crate) use awaited::Awaited;
pub use excluded::avoid_for;
pub use failed::backoff;
pub(crate) use finished::Finished;
pub(crate) use roster::Named;
pub use types::{Expired, Next, Observed, Standing};

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::condition::Verdict;
use trellis_api::job::{JobPhase, PodCounts, TrainingJobSpec, TrainingJobStatus};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{Reason, fact};

use crate::observed::PodView;
use crate::{Attempt, Wish, has_all, makes_room};
use roster::Roster;

/// Computes the status to write and the wish.
#[must_use]
pub fn next(o: Observed<'_>) -> Next {
    Evaluation::new(o).run()
}

/// One evaluation: the observed job and the status in the making.
struct Evaluation<'a> {
    o: Observed<'a>,
    status: TrainingJobStatus,
    again: Option<Timestamp>,
    /// Set if the gang stays on an unhealthy node for now: the reason, if it lasts, and the
    /// message.
    staying: Option<(Option<Reason>, String)>,
    /// Pods that are created while the others exist, as in the new status. [`Self::set_awaited`]
    /// updates the roster and the finished pods with it.
    awaited: Awaited,
    /// The pods of the current attempt.
    roster: Roster<'a>,
    /// Pods of the attempt that have ended and need not run again, seen now or before.
    finished: Finished<'a>,
    /// The spec of the current stage, or of the next one if this evaluation ends the stage.
    spec: Cow<'a, TrainingJobSpec>,
    /// The job's pods by name, of all attempts.
    own: Vec<Named<'a>>,
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
        let mut own: Vec<Named<'a>> = Vec::with_capacity(o.pods.len());
        let named = o.pods.iter().map(|(name, pod)| (name.as_str(), pod));
        own.extend(named.filter(|(_, pod)| pod.job_uid == o.uid));
        let mut evaluation = Self {
            o,
            status,
            again: None,
            staying: None,
            awaited: Awaited::default(),
            roster: Roster::default(),
            finished: Finished::default(),
            spec: Cow::Borrowed(o.spec),
            own,
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
            // The spec changed while the plan was carried out: the plan is not valid any more.
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

    /// True if all pods of the plan existed and have ended before the plan was closed.
    fn has_run(&self) -> bool {
        let over = |pod: &PodView| pod.phase.is_over();
        let plan = self.o.journal.plan.as_ref();
        plan.is_some_and(|plan| has_all(plan, self.o.uid, self.o.pods, &[], over))
    }

    fn attempt(&self) -> i64 {
        self.status.attempt.unwrap_or(1)
    }

    /// True if the spec has changed while the first plan is carried out, which rolls the plan back.
    /// Before a job is placed for the first time, every field may change.
    fn spec_changed_in_commit(&self) -> bool {
        let planned = self.o.journal.plan.as_ref().map(|p| p.compiled.as_str());
        match (self.o.standing, planned) {
            (Standing::Runnable { compiled }, Some(planned)) => {
                self.o.status.admitted_time.is_none() && compiled != planned
            }
            _ => false,
        }
    }

    /// Moves the job to another attempt, which has no pods yet.
    fn begin(&mut self, attempt: i64) {
        self.status.attempt = Some(attempt);
        let awaited = self.awaited_pods();
        self.set_awaited(awaited);
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
        if phase.is_terminal() {
            self.status.internal.awaited_pods = None;
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
        self.status.message = Some(fact(&message));
        Next {
            status: Some(self.status),
            wish,
            again: self.again,
            expired: Expired::Nothing,
        }
    }

    /// Stops the run time clock: adds the run time of the attempt to the total.
    fn stop_clock(&mut self) {
        if let Some(since) = self.status.running_time.take() {
            let ran = seconds_between(since.0, self.o.now);
            self.status.active_seconds =
                Some(self.status.active_seconds.unwrap_or(0).saturating_add(ran));
        }
    }

    /// Updates the counts. An ended job has no running pods: those that still run are being
    /// stopped, and nothing updates the counts later.
    fn count_pods(&mut self, ended: bool) {
        let total = i64::from(self.spec.pod_count());
        let count = |pods: usize| i64::try_from(pods).unwrap_or(i64::MAX);
        let tally = self.roster.tally();
        let (running, nodes) = match ended {
            true => (0, 0),
            false => (tally.running, self.roster.nodes.len()),
        };
        let counts = PodCounts {
            total,
            running: count(running),
            succeeded: count(self.finished.completed()),
            failed: count(tally.failed),
        };
        let ready = counts.running.saturating_add(counts.succeeded);
        self.status.ready = Some(format!("{ready}/{total}"));
        self.status.pods = Some(counts);
        self.status.nodes = Some(count(nodes));
        self.status.internal.finished_pods = self.finished.status(self.attempt());
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
