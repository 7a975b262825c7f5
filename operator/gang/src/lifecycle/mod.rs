//! Evaluates a job: computes its next status and wish as a pure function of spec, status, journal
//! and pods. The reconciler writes the result, and nothing else.
//!
//! A restart counts once because of its order: first the status with the new attempt is written,
//! then the pods of the old attempt are deleted. The attempt in the status decides, no matter how
//! many ranks fail together or when the operator fails.

mod attempt_pods;
mod checkpoint;
mod committing;
mod displaced_slices;
mod ended;
mod failed_attempt;
mod indexes;
mod nodes;
mod placed;
mod policy_eviction;
mod recovery;
mod stage;
mod starting;
mod suspended;
#[cfg(test)]
mod tests;
mod types;
mod waiting;

pub(crate) use attempt_pods::NamedPod;
pub use failed_attempt::restart_backoff;
pub(crate) use indexes::awaited::AwaitedIndex;
pub(crate) use indexes::finished::FinishedIndex;
pub(crate) use nodes::bad::BadNodes;
pub use nodes::excluded::exclusion_time;
pub use types::{EvaluationResult, ExpiredObjects, JobReadiness, ObservedJob};

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::job::{JobPhase, PodCounts, TrainingJobSpec, TrainingJobStatus};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::status::condition::JobSummary;
use trellis_api::{Reason, shorten_message};

use crate::observed::PodView;
use crate::{DesiredAttempt, DesiredGang, GangIndexes, is_plan_complete, is_preempted};
use attempt_pods::AttemptPods;

/// Computes the status to write and the wish.
#[must_use]
pub fn evaluate(o: ObservedJob<'_>) -> EvaluationResult {
    Evaluation::new(o).evaluate()
}

/// One evaluation: the observed job and the status in the making.
struct Evaluation<'a> {
    observed: ObservedJob<'a>,
    status: TrainingJobStatus,
    next_check: Option<Timestamp>,
    /// Set if the gang stays on an unhealthy node for now: the reason, if it lasts, and the
    /// message.
    unhealthy_node: Option<(Option<Reason>, String)>,
    /// Pods that are created while the other pods exist, as in the new status.
    /// [`Self::replace_awaited`] updates the roster and the finished pods with it.
    awaited: AwaitedIndex,
    /// The pods that are part of the gang, by task group.
    gang: BTreeMap<&'a str, GangIndexes>,
    /// The pods of the current attempt.
    attempt_pods: AttemptPods<'a>,
    /// Pods of the attempt that have ended and need not run again, seen now or before.
    finished: FinishedIndex<'a>,
    /// The spec of the current stage, or of the next one if this evaluation ends the stage.
    spec: Cow<'a, TrainingJobSpec>,
    /// The job's pods by name, of all attempts.
    job_pods: Vec<NamedPod<'a>>,
}

fn add_seconds(at: Timestamp, seconds: i64) -> Timestamp {
    at.saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs().max(0)
}

impl<'a> Evaluation<'a> {
    fn new(o: ObservedJob<'a>) -> Self {
        let mut status = o.status.clone();
        status.observed_generation = o.generation;
        status.attempt = Some(status.attempt.unwrap_or(1));
        status.restarts = Some(status.restarts.unwrap_or(0));
        status.disruptions = Some(status.disruptions.unwrap_or(0));
        status.stage = stage::current_stage(&o);
        status.queued_time = Some(status.queued_time.unwrap_or(Time(o.created)));
        status.gpus = Some(i64::from(o.spec.gpu_count()));
        if let Some(queue) = o.queue {
            status.queue = Some(queue.to_owned());
        }
        let mut own: Vec<NamedPod<'a>> = Vec::with_capacity(o.pods.len());
        let named = o.pods.iter().map(|(name, pod)| (name.as_str(), pod));
        own.extend(named.filter(|(_, pod)| pod.job_uid == o.uid));
        let plan = o.journal.plan.as_ref();
        let plan = plan.filter(|plan| Some(plan.attempt) == status.attempt);
        let groups = o.spec.task_groups.iter();
        let gang = groups.map(|group| (group.name.as_str(), GangIndexes::new(group, plan)));
        let mut evaluation = Self {
            gang: gang.collect(),
            observed: o,
            status,
            next_check: None,
            unhealthy_node: None,
            awaited: AwaitedIndex::default(),
            attempt_pods: AttemptPods::default(),
            finished: FinishedIndex::default(),
            spec: Cow::Borrowed(o.spec),
            job_pods: own,
        };
        let awaited = evaluation.awaited_pods();
        evaluation.replace_awaited(awaited);
        evaluation
    }

    fn evaluate(mut self) -> EvaluationResult {
        if self.observed.status.has_ended() {
            return self.evaluate_ended();
        }
        if let Some(at) = self.next_exclusion_end() {
            self.schedule_check(at);
        }
        let phase = self.observed.journal.phase.unwrap_or_default();
        let admitted = matches!(phase, PodGroupPhase::Committing | PodGroupPhase::Placed);
        if admitted && self.status.admitted_time.is_none() && !self.spec_changed_in_commit() {
            self.status.admitted_time = Some(Time(self.observed.now));
        }
        if self.observed.spec.is_suspended() {
            return self.evaluate_suspended();
        }
        if self.was_suspended() {
            return self.resume();
        }
        let current = self
            .observed
            .journal
            .plan
            .as_ref()
            .is_some_and(|p| p.attempt == self.attempt());
        if self.status.scheduled_time.is_some() && !current {
            if self.observed.has_journal {
                return self.end_attempt_without_journal();
            }
            if matches!(self.observed.readiness, JobReadiness::Runnable { .. }) {
                return self.await_journal();
            }
        }
        match phase {
            PodGroupPhase::Placed if current && !self.spec_changed_in_commit() => {
                self.evaluate_placed()
            }
            PodGroupPhase::Committing if current && !self.spec_changed_in_commit() => {
                if self.has_finished_before_close() {
                    self.evaluate_placed()
                } else {
                    self.evaluate_committing()
                }
            }
            PodGroupPhase::Placed if current => self.replace_changed_attempt(),
            PodGroupPhase::Unwinding if current && is_preempted(self.observed.journal) => {
                self.end_preempted_attempt()
            }
            _ => self.evaluate_waiting(),
        }
    }

    /// Begins a new attempt because the spec changed while the plan was carried out. This does not
    /// count as a restart. The status moves to the new attempt before the pods of the old one
    /// leave. Otherwise a new leader could place the old attempt again.
    fn replace_changed_attempt(mut self) -> EvaluationResult {
        self.status.internal.hurried_attempt = Some(self.attempt());
        self.begin_attempt(self.attempt().saturating_add(1));
        self.status.scheduled_time = None;
        self.status.retry_time = None;
        self.report(
            JobPhase::Restarting,
            Reason::Restarting,
            "the spec changed after Trellis had planned the gang, so a new attempt starts with the new spec",
            DesiredGang::Wait,
        )
    }

    /// Returns true if all pods of the plan existed and have ended before the plan was closed.
    fn has_finished_before_close(&self) -> bool {
        let over = |pod: &PodView| pod.phase.is_over();
        let plan = self.observed.journal.plan.as_ref();
        plan.is_some_and(|plan| {
            is_plan_complete(plan, self.observed.uid, self.observed.pods, &[], over)
        })
    }

    fn attempt(&self) -> i64 {
        self.status.attempt.unwrap_or(1)
    }

    /// Returns true if the spec has changed while the first plan is carried out, which rolls the
    /// plan back. Before a job is placed for the first time, every field may change.
    fn spec_changed_in_commit(&self) -> bool {
        let planned = self
            .observed
            .journal
            .plan
            .as_ref()
            .map(|p| p.compiled.as_str());
        match (self.observed.readiness, planned) {
            (JobReadiness::Runnable { compiled }, Some(planned)) => {
                self.observed.status.admitted_time.is_none() && compiled != planned
            }
            _ => false,
        }
    }

    /// Moves the job to another attempt, which has no pods yet.
    fn begin_attempt(&mut self, attempt: i64) {
        self.status.attempt = Some(attempt);
        let awaited = self.awaited_pods();
        self.replace_awaited(awaited);
    }

    fn schedule_check(&mut self, at: Timestamp) {
        self.next_check = Some(self.next_check.map_or(at, |a| a.min(at)));
    }

    fn report(
        mut self,
        phase: JobPhase,
        reason: Reason,
        message: impl Into<String>,
        desired: DesiredGang<DesiredAttempt>,
    ) -> EvaluationResult {
        let message = message.into();
        let quota_reserved = matches!(
            self.observed.journal.phase,
            Some(
                PodGroupPhase::Provisioning
                    | PodGroupPhase::Nominated
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
        self.record_checkpoint();
        let verdict = JobSummary {
            phase,
            reason,
            message: message.clone(),
            quota_reserved,
            scheduled: match self.observed.journal.phase {
                Some(PodGroupPhase::Placed) => true,
                Some(PodGroupPhase::Committing) => self.has_finished_before_close(),
                _ => false,
            },
        };
        self.status.conditions = verdict.conditions(
            self.observed.generation,
            &Time(self.observed.now),
            &self.observed.status.conditions,
        );
        self.status.phase = Some(phase);
        self.status.reason = Some(reason);
        self.status.message = Some(shorten_message(&message));
        EvaluationResult {
            status: Some(self.status),
            desired,
            next_check: self.next_check,
            expired: ExpiredObjects::Nothing,
        }
    }

    /// Stops the run time clock: adds the run time of the attempt to the total.
    fn stop_clock(&mut self) {
        if let Some(since) = self.status.running_time.take() {
            let ran = seconds_between(since.0, self.observed.now);
            self.status.active_seconds =
                Some(self.status.active_seconds.unwrap_or(0).saturating_add(ran));
        }
    }

    /// Updates the counts. An ended job has no running pods: those that still run are being
    /// stopped, and nothing updates the counts later.
    fn count_pods(&mut self, ended: bool) {
        let total = i64::from(self.spec.pod_count());
        let count = |pods: usize| i64::try_from(pods).unwrap_or(i64::MAX);
        let tally = self.attempt_pods.phase_counts();
        let (running, nodes) = match ended {
            true => (0, 0),
            false => (tally.running, self.attempt_pods.nodes.len()),
        };
        let counts = PodCounts {
            total,
            running: count(running),
            succeeded: count(self.finished.completed_count()),
            failed: count(tally.failed),
        };
        let ready = counts.running.saturating_add(counts.succeeded);
        self.status.ready = Some(format!("{ready}/{total}"));
        self.status.pods = Some(counts);
        self.status.nodes = Some(count(nodes));
        self.status.internal.finished_pods = self.finished.to_status(self.attempt());
    }

    fn desired_run(&self) -> DesiredGang<DesiredAttempt> {
        let retry = self.status.retry_time.as_ref().map(|t| t.0);
        DesiredGang::Run(DesiredAttempt {
            number: self.attempt(),
            submitted: self
                .status
                .queued_time
                .as_ref()
                .map_or(self.observed.created, |t| t.0),
            not_before: retry.filter(|t| *t > self.observed.now),
            excluded_nodes: self.excluded_nodes(|reason| reason == Reason::KubeletRefused),
            suspect_nodes: self.excluded_nodes(|reason| reason != Reason::KubeletRefused),
            hurry: self.was_hurried(self.attempt().saturating_sub(1)),
            checkpoint: self.last_checkpoint(),
            awaited: self.awaited_pods(),
        })
    }
}
