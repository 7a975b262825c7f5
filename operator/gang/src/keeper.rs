//! Decides the next step for one gang: a pure function of the wish, the journal and the pods. The
//! driver carries out the step and asks again, so that a crash between two steps loses nothing.

mod beside;

pub use beside::{Dismissed, Vacancy};

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::job::{AwaitedGroup, AwaitedPods};
use trellis_api::pod_group::{PodGroupPhase, PodGroupStatus};

use super::deletions::Deletions;
use super::journal;
use super::wish::Wish;
use crate::observed::{ExternalPod, PodView};

/// A pod that is to be deleted or evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doomed {
    /// Name of the pod.
    pub name: String,
    /// Uid of the pod, the precondition of the delete.
    pub uid: String,
    /// True if no kubelet is left to stop the pod: it is deleted with grace period 0.
    pub force: bool,
    /// Longest grace period, in seconds. None for the one of the pod's spec.
    pub grace: Option<u32>,
}

impl Doomed {
    /// A pod that another controller made.
    #[must_use]
    pub fn external(name: &str, pod: &ExternalPod) -> Self {
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
pub enum Step {
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
    Fill(Vec<Vacancy>),
    /// Write that the plan is rolled back.
    Undo {
        /// The reason.
        reason: Reason,
        /// The reason in words.
        message: String,
    },
    /// Delete these pods.
    Delete(Vec<Doomed>),
    /// Evict these pods: a PodDisruptionBudget may delay that.
    Evict(Vec<Doomed>),
    /// Wait until the job's status records the end of the attempt.
    AwaitStatus,
    /// Write that no pod of the plan is left.
    Clear,
    /// Write that the gang has ended.
    Finish,
}

/// The observed state of one gang.
#[derive(Clone, Copy, Debug)]
pub struct Gang<'a> {
    /// Uid of the TrainingJob.
    pub uid: &'a str,
    /// The attempt in the job's status.
    pub attempt: i64,
    /// True if the job's status says that this attempt was placed.
    pub was_placed: bool,
    /// The first attempt of the stage in the job's status.
    pub stage: i64,
    /// True if finished pods of earlier stages are kept.
    pub keeps_done: bool,
    /// The wish of the job's lifecycle.
    pub wish: &'a Wish,
    /// Set if the gang must make room: for which gang and why, in words.
    pub told: Option<&'a str>,
    /// The journal.
    pub journal: &'a PodGroupStatus,
    /// Pods of the job's name, by pod name.
    pub pods: &'a BTreeMap<String, PodView>,
    /// Nodes that are given up, because they were lost for too long.
    pub lost: &'a BTreeSet<String>,
    /// Termination grace period of the gang's pods, in seconds.
    pub grace: i64,
    /// Surplus pods that are to be removed.
    pub dismissed: &'a Dismissed,
    /// Deletes that were requested.
    pub deletions: &'a Deletions,
    /// The wall-clock time.
    pub now: Timestamp,
    /// The monotonic time, which measures pauses.
    pub clock: Instant,
}

impl Gang<'_> {
    /// Decides the next step.
    #[must_use]
    pub fn next(&self) -> Step {
        match self.journal.phase.unwrap_or_default() {
            PodGroupPhase::Pending => self.pending(),
            PodGroupPhase::Nominated => self.nominated(),
            PodGroupPhase::Committing => self.committing(),
            PodGroupPhase::Placed => self.placed(),
            PodGroupPhase::Unwinding => self.unwinding(),
            PodGroupPhase::Finished => self.finished(),
        }
    }

    fn pending(&self) -> Step {
        let goes_on = matches!(self.wish, Wish::Run(_) | Wish::Wait);
        if self.was_placed && goes_on {
            // The gang was placed, but its journal was deleted. The attempt ends in the status
            // before its pods are deleted.
            return Step::AwaitStatus;
        }
        // No journal names these pods: a process that did not lead made them, or the journal was
        // deleted.
        let keeps_logs = matches!(self.wish, Wish::Finish { keep: true, .. });
        if let Some(step) = self.remove(|p| !(keeps_logs && p.phase.is_over())) {
            return step;
        }
        match self.wish {
            Wish::Run(_) => Step::Enqueue,
            _ => Step::Withdraw,
        }
    }

    fn nominated(&self) -> Step {
        // Stray pods are deleted as for a waiting gang; the victims keep leaving.
        if let Some(Step::Delete(stray)) = self.remove(|_| true) {
            return Step::Delete(stray);
        }
        let plan = self.journal.plan.clone().unwrap_or_default();
        match self.wish {
            Wish::Run(run)
                if run.attempt == plan.attempt && run.job.compiled().hash() == plan.compiled =>
            {
                Step::Follow
            }
            _ => Step::Void,
        }
    }

    fn committing(&self) -> Step {
        let plan = self.journal.plan.clone().unwrap_or_default();
        let run = match self.wish {
            Wish::Run(run) => run,
            // The gang need not be complete any more, because its job has ended.
            Wish::Finish { keep, .. } => return self.finish(*keep),
            Wish::Stop { reason, .. } => return no_longer(*reason),
            Wish::Wait => return no_longer(Reason::Restarting),
        };
        // If the gang is complete, only the write that closes the plan is late: there is nothing to
        // roll back.
        let held = &run.awaited.held_groups;
        let is_whole = || journal::has_all(&plan, self.uid, self.pods, held, |pod| !pod.deleting);
        let expired = plan.deadline.as_ref().is_none_or(|d| d.0 <= self.now) && !is_whole();
        if plan.attempt != run.attempt || plan.compiled != run.job.compiled().hash() {
            Step::Undo {
                reason: Reason::Restarting,
                message: "the plan is for an earlier attempt or spec".to_owned(),
            }
        } else if let Some(undo) = self.leaves() {
            undo
        } else if expired {
            Step::Undo {
                reason: self.journal.reason.unwrap_or(Reason::PodRefused),
                message: self.journal.message.clone().unwrap_or_else(|| {
                    "the pods were not all created before the plan's deadline".to_owned()
                }),
            }
        } else {
            Step::Commit
        }
    }

    fn placed(&self) -> Step {
        let plan = self.journal.plan.clone().unwrap_or_default();
        // Removes pods of this job that no plan names, and pods whose replacement is awaited.
        let run = self.wish.run().filter(|run| run.attempt == plan.attempt);
        let run = run.map(AsRef::as_ref);
        let awaited = run.map(|run| &run.awaited);
        let awaited = awaited.filter(|awaited| awaited.attempt == plan.attempt);
        let awaited = awaited.map(AwaitedPods::by_pod);
        let is_old = |pod: &PodView| self.is_old(run, awaited.as_ref(), pod);
        if let Some(Step::Delete(stray)) = self.remove(|p| p.plan != plan.hash || is_old(p)) {
            return Step::Delete(stray);
        }
        if let Some(step) = self.dismiss() {
            return step;
        }
        match self.wish {
            Wish::Run(run) if run.attempt > plan.attempt => Step::Undo {
                reason: Reason::Restarting,
                message: format!("attempt {} is next", run.attempt),
            },
            Wish::Run(run) => self.leaves().unwrap_or_else(|| self.fill(run, &plan)),
            Wish::Wait => self.leaves().unwrap_or(Step::Hold),
            Wish::Stop { reason, .. } => no_longer(*reason),
            Wish::Finish { keep, .. } => self.finish(*keep),
        }
    }

    fn finish(&self, keep: bool) -> Step {
        self.remove(|p| !(keep && p.phase.is_over()))
            .unwrap_or(Step::Finish)
    }

    fn leaves(&self) -> Option<Step> {
        Some(Step::Undo {
            reason: Reason::Preempted,
            message: self.told?.to_owned(),
        })
    }

    fn unwinding(&self) -> Step {
        let makes_room = journal::makes_room(self.journal);
        match self.remove(|_| true) {
            Some(Step::Delete(pods)) if makes_room => return self.evict(pods),
            Some(step) => return step,
            None => {}
        }
        let planned = self.journal.plan.as_ref().map(|plan| plan.attempt);
        // The end of a job and a suspension are recorded elsewhere.
        let goes_on = matches!(self.wish, Wish::Run(_) | Wish::Wait);
        if makes_room && goes_on && planned == Some(self.attempt) {
            return Step::AwaitStatus;
        }
        Step::Clear
    }

    /// Evicts pods. It deletes them instead once budgets may not delay the eviction any longer, or
    /// if no kubelet is left to stop a pod.
    fn evict(&self, pods: Vec<Doomed>) -> Step {
        let until = self.journal.evict_until.as_ref();
        let patient = until.is_some_and(|until| until.0 > self.now);
        let (evicted, deleted): (Vec<_>, Vec<_>) =
            pods.into_iter().partition(|pod| patient && !pod.force);
        if deleted.is_empty() {
            Step::Evict(evicted)
        } else {
            Step::Delete(deleted)
        }
    }

    fn finished(&self) -> Step {
        match self.wish {
            Wish::Finish { keep: true, .. } => self.remove(|p| !p.phase.is_over()),
            _ => self.remove(|_| true),
        }
        .unwrap_or(Step::Withdraw)
    }

    /// Removes the pods of this job that match the predicate. None if there are none. Pods of
    /// another job of the same name are left to the garbage collector.
    fn remove(&self, which: impl Fn(&PodView) -> bool) -> Option<Step> {
        let mut waits = false;
        let mut doomed = Vec::new();
        for (name, pod) in self.pods {
            if pod.job_uid != self.uid {
                waits = true;
                continue;
            }
            if self.is_left(pod) || !which(pod) {
                continue;
            }
            waits = true;
            let force = pod.node.as_ref().is_some_and(|n| self.lost.contains(n));
            let asks = !pod.deleting || pod.stops_too_late || force;
            if asks && self.deletions.is_due(&pod.uid, force, self.clock) {
                doomed.push(Doomed {
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
            Some(Step::Delete(doomed))
        } else if waits {
            Some(Step::AwaitPods)
        } else {
            None
        }
    }

    /// A pod without an attempt belongs to no stage.
    fn is_of_earlier_stage(&self, pod: &PodView) -> bool {
        (1..self.stage).contains(&pod.attempt)
    }

    /// True if the pod is done and its stage too: the pod stays for its logs, and holds no
    /// resources.
    fn is_left(&self, pod: &PodView) -> bool {
        let is_before = match self.wish {
            // The stage ends now; the status that records it may not be visible yet.
            Wish::Stop { reason, .. } if *reason == Reason::StageComplete => true,
            Wish::Finish { keep: false, .. } => false,
            _ => self.is_of_earlier_stage(pod),
        };
        is_before && pod.phase.is_over() && self.keeps_done
    }

    /// A shorter grace period for a pod that has nothing to save, because its attempt failed by
    /// itself or its job has ended. It is never longer than the pod's own.
    fn short_grace(&self, pod: &PodView) -> Option<u32> {
        let hurry = match self.wish {
            // Pods that still run after their stage is complete have nothing to save.
            _ if self.is_of_earlier_stage(pod) => true,
            Wish::Run(run) if pod.attempt < run.attempt => run.hurry,
            // No pod of a plan that was never complete has run as a gang. A pod whose replacement
            // is awaited may have failed by itself.
            Wish::Run(run) => {
                let next = |g: &AwaitedGroup| g.name == pod.group && g.round > pod.round;
                !self.was_placed || run.awaited.pods.iter().any(|g| next(g) && g.hurried)
            }
            Wish::Finish { hurry, .. } => *hurry,
            Wish::Stop { hurry, .. } => *hurry,
            Wish::Wait => false,
        };
        (hurry && self.grace > i64::from(SHORT_GRACE)).then_some(SHORT_GRACE)
    }
}

fn no_longer(reason: Reason) -> Step {
    Step::Undo {
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
