//! What is to be done about one gang next: a pure function of what is wanted,
//! what the journal says and which pods there are. The driver does it and asks
//! again, so that a crash between any two steps loses nothing.

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
use crate::gang::observed::{ExternalPod, PodView};

/// A pod that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doomed {
    /// Its name.
    pub name: String,
    /// Its uid: the precondition of the delete.
    pub uid: String,
    /// True where nobody is left to stop it: grace 0.
    pub force: bool,
    /// Seconds that it is given at most. None: what stands in its spec.
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

/// Seconds for a pod that has nothing to save.
const SHORT_GRACE: u32 = 30;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Wait: pods of this name, of an earlier attempt or an earlier job, are still there.
    AwaitPods,
    /// Let the engine find a place.
    Enqueue,
    /// Keep away from the engine: nothing is wanted.
    Withdraw,
    /// Tell those who make room for the plan of the journal, and follow them.
    Follow,
    /// Write that the place is given up before it was had.
    Void,
    /// Carry out the plan of the journal.
    Commit,
    /// The place is the gang's.
    Hold,
    /// The same, and these pods of it are to be created.
    Fill(Vec<Vacancy>),
    /// Write that the plan is being undone.
    Undo {
        /// Why.
        reason: Reason,
        /// The same in words.
        message: String,
    },
    /// Delete these pods.
    Delete(Vec<Doomed>),
    /// Evict these pods: a PodDisruptionBudget may say not yet.
    Evict(Vec<Doomed>),
    /// Wait: the end of the attempt is to stand in the job's status first.
    AwaitStatus,
    /// Write that nothing is left of the plan.
    Clear,
    /// Write that the gang has ended.
    Finish,
}

/// What is seen of one gang.
#[derive(Clone, Copy, Debug)]
pub struct Gang<'a> {
    /// Uid of the TrainingJob.
    pub uid: &'a str,
    /// The attempt that the job's status names.
    pub attempt: i64,
    /// The job's status says that this attempt has had its place.
    pub was_placed: bool,
    /// The first attempt of the stage that the job's status names.
    pub stage: i64,
    /// What has ended of the stages before stays.
    pub keeps_done: bool,
    /// What is wanted.
    pub wish: &'a Wish,
    /// It is to make room: for whom and why, in words.
    pub told: Option<&'a str>,
    /// The journal.
    pub journal: &'a PodGroupStatus,
    /// Pods with the job's name, by their own name.
    pub pods: &'a BTreeMap<String, PodView>,
    /// Nodes that have been lost for so long that their pods are given up.
    pub lost: &'a BTreeSet<String>,
    /// Seconds that its pods are given to stop.
    pub grace: i64,
    /// Pods beyond the gang that are to go.
    pub dismissed: &'a Dismissed,
    /// Deletes that have been asked for.
    pub deletions: &'a Deletions,
    /// The time.
    pub now: Timestamp,
    /// The same by a clock that is never set: pauses are measured by it.
    pub clock: Instant,
}

impl Gang<'_> {
    /// What is to be done next.
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
            // The journal that said so was deleted. The attempt ends before its pods do.
            return Step::AwaitStatus;
        }
        // No journal names these pods: a leader that was none made them, or it was deleted.
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
        // As for one that waits; those who leave go on.
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
            // It need not be whole any more: nothing of it is to run again.
            Wish::Finish { keep, .. } => return self.finish(*keep),
            Wish::Stop { reason, .. } => return no_longer(*reason),
            Wish::Wait => return no_longer(Reason::Restarting),
        };
        // Of a gang that is whole only the closing is late: there is nothing to undo.
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
        // Pods of this job that no plan names, and those in whose place others are awaited.
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
        // An end of the job, or a suspension, is counted elsewhere.
        let goes_on = matches!(self.wish, Wish::Run(_) | Wish::Wait);
        if makes_room && goes_on && planned == Some(self.attempt) {
            return Step::AwaitStatus;
        }
        Step::Clear
    }

    /// Where a budget may not put it off any more, and where nobody is left to
    /// stop a pod, it is deleted.
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

    /// Removes the pods of this job that `which` names. None when there are none.
    /// Pods of another job of the same name are the garbage collector's.
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

    /// A pod that names no attempt is of none.
    fn is_of_earlier_stage(&self, pod: &PodView) -> bool {
        (1..self.stage).contains(&pod.attempt)
    }

    /// True of a pod that is done, as its stage is: it keeps its logs, and holds nothing.
    fn is_left(&self, pod: &PodView) -> bool {
        let is_before = match self.wish {
            // Of the stage that ends now; the status that says so may not be seen yet.
            Wish::Stop { reason, .. } if *reason == Reason::StageComplete => true,
            Wish::Finish { keep: false, .. } => false,
            _ => self.is_of_earlier_stage(pod),
        };
        is_before && pod.phase.is_over() && self.keeps_done
    }

    /// A shorter grace for a pod that has nothing to save: of an attempt that failed by itself,
    /// or of a job that has ended. Never a longer one than its own.
    fn short_grace(&self, pod: &PodView) -> Option<u32> {
        let hurry = match self.wish {
            // What still runs of a stage that is complete is of no use.
            _ if self.is_of_earlier_stage(pod) => true,
            Wish::Run(run) if pod.attempt < run.attempt => run.hurry,
            // Of a plan that was never carried out whole nothing has run, and one in whose
            // place another is awaited may have failed by itself.
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
