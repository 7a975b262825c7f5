//! Decides the next step for one gang: a pure function of the wish, the journal and the pods. The
//! driver carries out the step and asks again, so that a crash between two steps loses nothing.

mod pod_replacement;

pub use pod_replacement::{MissingPod, SurplusPods};

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::job::{AwaitedGroup, AwaitedPods};
use trellis_api::pod_group::{PodGroupPhase, PodGroupStatus};

use super::deletions::Deletions;
use super::desired_gang::DesiredGang;
use super::journal;
use crate::observed::{ExternalPod, PodView};

/// A pod that is to be deleted or evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDeletion {
    /// Name of the pod.
    pub name: String,
    /// Uid of the pod, the precondition of the delete.
    pub uid: String,
    /// True if no kubelet is left to stop the pod: it is deleted with grace period 0.
    pub force: bool,
    /// Longest grace period, in seconds. None for the one of the pod's spec.
    pub grace: Option<u32>,
}

impl PodDeletion {
    /// A pod that another controller made.
    #[must_use]
    pub fn from_external_pod(name: &str, pod: &ExternalPod) -> Self {
        Self {
            name: name.to_owned(),
            uid: pod.uid.clone(),
            force: false,
            grace: Some(pod.grace),
        }
    }
}

/// Grace period in seconds for a pod that has nothing to save.
const SHORT_GRACE: u32 = 30;

/// The next step for a gang.
#[derive(Clone, Debug, PartialEq)]
pub enum GangStep {
    /// Wait: pods of the same name, of an earlier attempt or job, still exist.
    AwaitPods,
    /// Let the engine find a place.
    Enqueue,
    /// Remove the gang from the engine.
    Withdraw,
    /// Ask the victims of the journal's plan to leave, and wait for them.
    Follow,
    /// Write that the gang gives up the place that it was nominated for.
    Void,
    /// Carry out the plan of the journal.
    Commit,
    /// Keep the gang's place.
    Hold,
    /// Keep the gang's place, and create these pods of it.
    CreateMissing(Vec<MissingPod>),
    /// Write that the plan is rolled back.
    RollBack {
        /// The reason.
        reason: Reason,
        /// The reason in words.
        message: String,
    },
    /// Delete these pods.
    Delete(Vec<PodDeletion>),
    /// Evict these pods: a PodDisruptionBudget may delay that.
    Evict(Vec<PodDeletion>),
    /// Wait until the job's status records the end of the attempt.
    AwaitStatus,
    /// Write that no pod of the plan is left.
    Clear,
    /// Write that the gang has ended.
    Finish,
}

/// The observed state of one gang.
#[derive(Clone, Copy, Debug)]
pub struct ObservedGang<'a> {
    /// Uid of the TrainingJob.
    pub uid: &'a str,
    /// The attempt in the job's status.
    pub attempt: i64,
    /// True if the job's status says that this attempt was placed.
    pub was_placed: bool,
    /// The first attempt of the stage in the job's status.
    pub stage_first_attempt: i64,
    /// True if finished pods of earlier stages are kept.
    pub keeps_finished_pods: bool,
    /// The wish of the job's lifecycle.
    pub desired: &'a DesiredGang,
    /// Set if the gang must make room: for which gang and why, in words.
    pub preemption_message: Option<&'a str>,
    /// The journal.
    pub journal: &'a PodGroupStatus,
    /// Pods of the job's name, by pod name.
    pub pods: &'a BTreeMap<String, PodView>,
    /// Nodes that are given up, because they were lost for too long.
    pub lost_nodes: &'a BTreeSet<String>,
    /// Termination grace period of the gang's pods, in seconds.
    pub grace: i64,
    /// Surplus pods that are to be removed.
    pub surplus_removals: &'a SurplusPods,
    /// Deletes that were requested.
    pub deletions: &'a Deletions,
    /// The wall-clock time.
    pub now: Timestamp,
    /// The monotonic time, which measures pauses.
    pub clock: Instant,
}

impl ObservedGang<'_> {
    /// Decides the next step.
    #[must_use]
    pub fn next_step(&self) -> GangStep {
        match self.journal.phase.unwrap_or_default() {
            PodGroupPhase::Pending => self.pending_step(),
            PodGroupPhase::Nominated => self.nominated_step(),
            PodGroupPhase::Committing => self.committing_step(),
            PodGroupPhase::Placed => self.placed_step(),
            PodGroupPhase::Unwinding => self.unwinding_step(),
            PodGroupPhase::Finished => self.finished_step(),
        }
    }

    fn pending_step(&self) -> GangStep {
        let goes_on = matches!(self.desired, DesiredGang::Run(_) | DesiredGang::Wait);
        if self.was_placed && goes_on {
            // The gang was placed, but its journal was deleted. The attempt ends in the status
            // before its pods are deleted.
            return GangStep::AwaitStatus;
        }
        // No journal names these pods: a process that did not lead made them, or the journal was
        // deleted.
        let keeps_logs = matches!(self.desired, DesiredGang::Finish { keep: true, .. });
        if let Some(step) = self.remove_pods(|p| !(keeps_logs && p.phase.is_over())) {
            return step;
        }
        match self.desired {
            DesiredGang::Run(_) => GangStep::Enqueue,
            _ => GangStep::Withdraw,
        }
    }

    fn nominated_step(&self) -> GangStep {
        // Stray pods are deleted as for a waiting gang; the victims keep leaving.
        if let Some(GangStep::Delete(stray)) = self.remove_pods(|_| true) {
            return GangStep::Delete(stray);
        }
        let plan = self.journal.plan.clone().unwrap_or_default();
        match self.desired {
            DesiredGang::Run(run)
                if run.attempt.number == plan.attempt
                    && run.job.compiled().hash() == plan.compiled =>
            {
                GangStep::Follow
            }
            _ => GangStep::Void,
        }
    }

    fn committing_step(&self) -> GangStep {
        let plan = self.journal.plan.clone().unwrap_or_default();
        let run = match self.desired {
            DesiredGang::Run(run) => run,
            // The gang need not be complete any more, because its job has ended.
            DesiredGang::Finish { keep, .. } => return self.finish_step(*keep),
            DesiredGang::Stop { reason, .. } => return roll_back_step(*reason),
            DesiredGang::Wait => return roll_back_step(Reason::Restarting),
        };
        // If the gang is complete, only the write that closes the plan is late: there is nothing to
        // roll back.
        let held = &run.attempt.awaited.held_groups;
        let is_whole =
            || journal::is_plan_complete(&plan, self.uid, self.pods, held, |pod| !pod.deleting);
        let expired = plan.deadline.as_ref().is_none_or(|d| d.0 <= self.now) && !is_whole();
        if plan.attempt != run.attempt.number || plan.compiled != run.job.compiled().hash() {
            GangStep::RollBack {
                reason: Reason::Restarting,
                message: "the plan is for an earlier attempt or spec".to_owned(),
            }
        } else if let Some(undo) = self.preemption_step() {
            undo
        } else if expired {
            GangStep::RollBack {
                reason: self.journal.reason.unwrap_or(Reason::PodRefused),
                message: self.journal.message.clone().unwrap_or_else(|| {
                    "the pods were not all created before the plan's deadline".to_owned()
                }),
            }
        } else {
            GangStep::Commit
        }
    }

    fn placed_step(&self) -> GangStep {
        let plan = self.journal.plan.clone().unwrap_or_default();
        // Removes pods of this job that no plan names, and pods whose replacement is awaited.
        let run = self
            .desired
            .attempt()
            .filter(|run| run.attempt.number == plan.attempt);
        let run = run.map(AsRef::as_ref);
        let awaited = run.map(|run| &run.attempt.awaited);
        let awaited = awaited.filter(|awaited| awaited.attempt == plan.attempt);
        let awaited = awaited.map(AwaitedPods::index_by_pod);
        let is_old = |pod: &PodView| self.is_obsolete(run, awaited.as_ref(), pod);
        if let Some(GangStep::Delete(stray)) =
            self.remove_pods(|p| p.plan != plan.hash || is_old(p))
        {
            return GangStep::Delete(stray);
        }
        if let Some(step) = self.evict_surplus() {
            return step;
        }
        match self.desired {
            DesiredGang::Run(run) if run.attempt.number > plan.attempt => GangStep::RollBack {
                reason: Reason::Restarting,
                message: format!("attempt {} is next", run.attempt.number),
            },
            DesiredGang::Run(run) => self
                .preemption_step()
                .unwrap_or_else(|| self.create_missing(run, &plan)),
            DesiredGang::Wait => self.preemption_step().unwrap_or(GangStep::Hold),
            DesiredGang::Stop { reason, .. } => roll_back_step(*reason),
            DesiredGang::Finish { keep, .. } => self.finish_step(*keep),
        }
    }

    fn finish_step(&self, keep: bool) -> GangStep {
        self.remove_pods(|p| !(keep && p.phase.is_over()))
            .unwrap_or(GangStep::Finish)
    }

    fn preemption_step(&self) -> Option<GangStep> {
        Some(GangStep::RollBack {
            reason: Reason::Preempted,
            message: self.preemption_message?.to_owned(),
        })
    }

    fn unwinding_step(&self) -> GangStep {
        let makes_room = journal::is_preempted(self.journal);
        match self.remove_pods(|_| true) {
            Some(GangStep::Delete(pods)) if makes_room => return self.evict_or_delete(pods),
            Some(step) => return step,
            None => {}
        }
        let planned = self.journal.plan.as_ref().map(|plan| plan.attempt);
        // The end of a job and a suspension are recorded elsewhere.
        let goes_on = matches!(self.desired, DesiredGang::Run(_) | DesiredGang::Wait);
        if makes_room && goes_on && planned == Some(self.attempt) {
            return GangStep::AwaitStatus;
        }
        GangStep::Clear
    }

    /// Evicts pods. It deletes them instead once budgets may not delay the eviction any longer, or
    /// if no kubelet is left to stop a pod.
    fn evict_or_delete(&self, pods: Vec<PodDeletion>) -> GangStep {
        let until = self.journal.evict_until.as_ref();
        let patient = until.is_some_and(|until| until.0 > self.now);
        let (evicted, deleted): (Vec<_>, Vec<_>) =
            pods.into_iter().partition(|pod| patient && !pod.force);
        if deleted.is_empty() {
            GangStep::Evict(evicted)
        } else {
            GangStep::Delete(deleted)
        }
    }

    fn finished_step(&self) -> GangStep {
        match self.desired {
            DesiredGang::Finish { keep: true, .. } => self.remove_pods(|p| !p.phase.is_over()),
            _ => self.remove_pods(|_| true),
        }
        .unwrap_or(GangStep::Withdraw)
    }

    /// Removes the pods of this job that match the predicate. None if there are none. Pods of
    /// another job of the same name are left to the garbage collector.
    fn remove_pods(&self, which: impl Fn(&PodView) -> bool) -> Option<GangStep> {
        let mut waits = false;
        let mut doomed = Vec::new();
        for (name, pod) in self.pods {
            if pod.job_uid != self.uid {
                waits = true;
                continue;
            }
            if self.is_finished_stage_pod(pod) || !which(pod) {
                continue;
            }
            waits = true;
            let force = pod
                .node
                .as_ref()
                .is_some_and(|n| self.lost_nodes.contains(n));
            let asks = !pod.deleting || pod.has_overlong_grace || force;
            if asks && self.deletions.is_due(&pod.uid, force, self.clock) {
                doomed.push(PodDeletion {
                    name: name.clone(),
                    uid: pod.uid.clone(),
                    force,
                    grace: match force {
                        true => Some(0),
                        false => self.short_grace(pod),
                    },
                });
            }
        }
        if !doomed.is_empty() {
            Some(GangStep::Delete(doomed))
        } else if waits {
            Some(GangStep::AwaitPods)
        } else {
            None
        }
    }

    /// A pod without an attempt belongs to no stage.
    fn is_of_earlier_stage(&self, pod: &PodView) -> bool {
        (1..self.stage_first_attempt).contains(&pod.attempt)
    }

    /// True if the pod is done and its stage too: the pod stays for its logs, and holds no
    /// resources.
    fn is_finished_stage_pod(&self, pod: &PodView) -> bool {
        let is_before = match self.desired {
            // The stage ends now; the status that records it may not be visible yet.
            DesiredGang::Stop { reason, .. } if *reason == Reason::StageComplete => true,
            DesiredGang::Finish { keep: false, .. } => false,
            _ => self.is_of_earlier_stage(pod),
        };
        is_before && pod.phase.is_over() && self.keeps_finished_pods
    }

    /// A shorter grace period for a pod that has nothing to save, because its attempt failed by
    /// itself or its job has ended. It is never longer than the pod's own.
    fn short_grace(&self, pod: &PodView) -> Option<u32> {
        let hurry = match self.desired {
            // Pods that still run after their stage is complete have nothing to save.
            _ if self.is_of_earlier_stage(pod) => true,
            DesiredGang::Run(run) if pod.attempt < run.attempt.number => run.attempt.hurry,
            // No pod of a plan that was never complete has run as a gang. A pod whose replacement
            // is awaited may have failed by itself.
            DesiredGang::Run(run) => {
                let next = |g: &AwaitedGroup| g.name == pod.group && g.round > pod.round;
                !self.was_placed
                    || run
                        .attempt
                        .awaited
                        .pods
                        .iter()
                        .any(|g| next(g) && g.hurried)
            }
            DesiredGang::Finish { hurry, .. } => *hurry,
            DesiredGang::Stop { hurry, .. } => *hurry,
            DesiredGang::Wait => false,
        };
        (hurry && self.grace > i64::from(SHORT_GRACE)).then_some(SHORT_GRACE)
    }
}

fn roll_back_step(reason: Reason) -> GangStep {
    GangStep::RollBack {
        reason,
        message: match reason {
            Reason::Restarting => "the gang is to be placed anew",
            Reason::PolicyViolation => "policies forbid what it runs",
            Reason::StageComplete => "the next stage is to be placed",
            _ => "the gang is no longer to run",
        }
        .to_owned(),
    }
}

#[cfg(test)]
mod tests;
