//! The pods that Trellis creates for a TrainingJob.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::Reason;
use trellis_api::job::{AwaitedGroup, AwaitedPods};
use trellis_api::pod_group::{JournaledOrder, Plan, PodGroupPhase};

use super::{
    Departures, GangStep, Members, MissingPod, ObservedGang, PodDeletion, SliceReplacement,
    SurplusPods,
};
use crate::desired_gang::DesiredGang;
use crate::journal;
use crate::observed::PodView;

/// Grace period in seconds for a pod that has nothing to save.
pub(super) const SHORT_GRACE: u32 = 30;

/// A step that only a job's gang has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreatedStep {
    /// Wait until the job's status records the end of the attempt.
    AwaitStatus,
    /// Write that the gang has ended.
    Finish,
    /// Write that a slice outside the gang replaces a slice of the gang that cannot return to its
    /// nodes.
    ReplaceSlice(SliceReplacement),
}

/// All members of the gang: the engine places them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeGang;

pub(super) type CreatedGangStep = GangStep<WholeGang, MissingPod, CreatedStep>;
type Step = CreatedGangStep;

/// The pods of a job, and what its lifecycle wants.
#[derive(Clone, Copy, Debug)]
pub struct CreatedMembers<'a> {
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
    /// Pods of the job's name, by pod name.
    pub pods: &'a BTreeMap<String, PodView>,
    /// Nodes that are given up, because they were lost for too long.
    pub lost_nodes: &'a BTreeSet<String>,
    /// Termination grace period of the gang's pods, in seconds.
    pub grace: i64,
    /// Surplus pods that are to be removed.
    pub surplus_removals: &'a SurplusPods,
}

/// The gang of a job.
pub(super) type Gang<'a> = ObservedGang<'a, CreatedMembers<'a>>;

impl<'a> Members for CreatedMembers<'a> {
    type Request = WholeGang;
    type Addition = MissingPod;
    type SpecialStep = CreatedStep;

    /// Removes pods of a gang that is nominated or waits for new nodes. Such a gang has no pods
    /// yet. A process that did not lead created them, or the journal was deleted. The victims
    /// continue to leave.
    fn remove_strays(gang: &ObservedGang<'_, Self>) -> Option<Step> {
        match gang.journal.phase.unwrap_or_default() {
            PodGroupPhase::Provisioning | PodGroupPhase::Nominated => {
                gang.departing_pods(|_| true).request_step()
            }
            _ => None,
        }
    }

    fn pending_step(gang: &ObservedGang<'_, Self>) -> Step {
        let members = &gang.members;
        let goes_on = matches!(members.desired, DesiredGang::Run(_) | DesiredGang::Wait);
        if members.was_placed && goes_on {
            // The gang was placed, but its journal was deleted. The attempt ends in the status
            // before its pods are deleted.
            return GangStep::Special(CreatedStep::AwaitStatus);
        }
        // No journal names these pods: a process that did not lead made them, or the journal was
        // deleted.
        let keeps_logs = matches!(members.desired, DesiredGang::Finish { keep: true, .. });
        let strays = gang.departing_pods(|p| !(keeps_logs && p.phase.is_over()));
        strays.step().unwrap_or(match members.desired {
            DesiredGang::Run(_) => GangStep::Enqueue(WholeGang),
            _ => GangStep::Withdraw,
        })
    }

    fn wants_nodes(gang: &ObservedGang<'_, Self>, nodes: &JournaledOrder) -> bool {
        gang.is_desired(nodes.attempt, &nodes.compiled)
    }

    fn wants_plan(gang: &ObservedGang<'_, Self>, plan: &Plan) -> bool {
        gang.is_desired(plan.attempt, &plan.compiled)
    }

    fn abandon_plan(gang: &ObservedGang<'_, Self>, plan: &Plan) -> Option<Step> {
        match gang.members.desired {
            // The gang need not be complete any more, because its job has ended.
            DesiredGang::Finish { keep, .. } => Some(gang.finish_step(*keep)),
            DesiredGang::Stop { reason, .. } => Some(roll_back_step(*reason)),
            DesiredGang::Wait => Some(roll_back_step(Reason::Restarting)),
            DesiredGang::Run(_) if Self::wants_plan(gang, plan) => None,
            DesiredGang::Run(_) => Some(GangStep::RollBack {
                reason: Reason::Restarting,
                message: "the plan is for an earlier attempt or spec".to_owned(),
                failed: false,
            }),
        }
    }

    fn is_whole(gang: &ObservedGang<'_, Self>, plan: &Plan) -> bool {
        let members = &gang.members;
        members.desired.attempt().is_some_and(|run| {
            let held_groups = &run.attempt.awaited.held_groups;
            journal::is_plan_complete(plan, members.uid, members.pods, held_groups, |pod| {
                !pod.deleting
            })
        })
    }

    fn expiry(gang: &ObservedGang<'_, Self>) -> (Reason, String) {
        let message = gang.journal.message.clone().unwrap_or_else(|| {
            "the pods were not all created before the plan's deadline".to_owned()
        });
        (gang.journal.reason.unwrap_or(Reason::PodRefused), message)
    }

    fn maintain(gang: &ObservedGang<'_, Self>, plan: &Plan) -> Option<Step> {
        // Removes pods of this job that no plan names, and pods whose replacement is awaited.
        let run = gang
            .members
            .desired
            .attempt()
            .filter(|run| run.attempt.number == plan.attempt);
        let run = run.map(AsRef::as_ref);
        let awaited = run.map(|run| &run.attempt.awaited);
        let awaited = awaited.filter(|awaited| awaited.attempt == plan.attempt);
        let awaited = awaited.map(AwaitedPods::index_by_pod);
        let is_old = |pod: &PodView| gang.is_obsolete(run, awaited.as_ref(), pod);
        let strays = gang.departing_pods(|p| p.plan != plan.hash || is_old(p));
        if let Some(step) = strays.request_step().or_else(|| gang.evict_surplus()) {
            return Some(step);
        }
        if let Some(replacement) = run.and_then(|run| gang.slice_replacement(run, plan)) {
            return Some(GangStep::Special(CreatedStep::ReplaceSlice(replacement)));
        }
        match gang.members.desired {
            DesiredGang::Run(run) if run.attempt.number > plan.attempt => {
                Some(GangStep::RollBack {
                    reason: Reason::Restarting,
                    message: format!("attempt {} is next", run.attempt.number),
                    failed: false,
                })
            }
            DesiredGang::Run(_) | DesiredGang::Wait => None,
            DesiredGang::Stop { reason, .. } => Some(roll_back_step(*reason)),
            DesiredGang::Finish { keep, .. } => Some(gang.finish_step(*keep)),
        }
    }

    fn additions(gang: &ObservedGang<'_, Self>, plan: &Plan) -> Vec<MissingPod> {
        let run = gang.members.desired.attempt();
        run.map_or_else(Vec::new, |run| gang.missing_pods(run, plan))
    }

    fn departures(gang: &ObservedGang<'_, Self>, patient: bool) -> Departures {
        let mut leaving = gang.departing_pods(|_| true);
        if patient {
            // No kubelet is left to stop some pods: a budget cannot delay them.
            (leaving.deleted, leaving.evicted) =
                leaving.deleted.into_iter().partition(|pod| pod.force);
        }
        leaving
    }

    fn unwound_step(gang: &ObservedGang<'_, Self>) -> Step {
        let members = &gang.members;
        let planned = gang.journal.plan.as_ref().map(|plan| plan.attempt);
        // The end of a job and a suspension are recorded elsewhere.
        let goes_on = matches!(members.desired, DesiredGang::Run(_) | DesiredGang::Wait);
        let makes_room = journal::is_preempted(gang.journal);
        match makes_room && goes_on && planned == Some(members.attempt) {
            true => GangStep::Special(CreatedStep::AwaitStatus),
            false => GangStep::ClearPlan,
        }
    }

    fn finished_step(gang: &ObservedGang<'_, Self>) -> Step {
        let keeps = matches!(gang.members.desired, DesiredGang::Finish { keep: true, .. });
        let departing = gang.departing_pods(|p| !(keeps && p.phase.is_over()));
        departing.step().unwrap_or(GangStep::Withdraw)
    }
}

impl Gang<'_> {
    /// Returns true if the job's lifecycle wants to run this attempt of this compiled job.
    fn is_desired(&self, attempt: i64, compiled: &str) -> bool {
        let run = self.members.desired.attempt();
        run.is_some_and(|run| {
            run.attempt.number == attempt && run.job.compiled().hash() == compiled
        })
    }

    fn finish_step(&self, keep: bool) -> Step {
        self.departing_pods(|p| !(keep && p.phase.is_over()))
            .step()
            .unwrap_or(GangStep::Special(CreatedStep::Finish))
    }

    /// Returns the pods of this job that match the predicate. Pods of another job of the same name
    /// are left to the garbage collector.
    pub(super) fn departing_pods(&self, which: impl Fn(&PodView) -> bool) -> Departures {
        let mut leaving = Departures::default();
        for (name, pod) in self.members.pods {
            if pod.job_uid != self.members.uid {
                leaving.are_left = true;
                continue;
            }
            if self.is_finished_stage_pod(pod) || !which(pod) {
                continue;
            }
            leaving.are_left = true;
            let force = pod
                .node
                .as_ref()
                .is_some_and(|n| self.members.lost_nodes.contains(n));
            let needs_request = !pod.deleting || pod.has_overlong_grace || force;
            if needs_request && self.deletions.is_due(&pod.uid, force, self.clock) {
                leaving.deleted.push(PodDeletion {
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
        leaving
    }

    /// Returns true if the pod belongs to an earlier stage. A pod without an attempt belongs to no
    /// stage.
    fn is_of_earlier_stage(&self, pod: &PodView) -> bool {
        (1..self.members.stage_first_attempt).contains(&pod.attempt)
    }

    /// Returns true if the pod is done and its stage too: the pod stays for its logs, and holds no
    /// resources.
    fn is_finished_stage_pod(&self, pod: &PodView) -> bool {
        let is_before = match self.members.desired {
            // The stage ends now; the status that records it may not be visible yet.
            DesiredGang::Stop { reason, .. } if *reason == Reason::StageComplete => true,
            DesiredGang::Finish { keep: false, .. } => false,
            _ => self.is_of_earlier_stage(pod),
        };
        is_before && pod.phase.is_over() && self.members.keeps_finished_pods
    }

    /// Returns a shorter grace period for a pod that has nothing to save, because its attempt
    /// failed by itself or its job has ended. It is never longer than the pod's own.
    fn short_grace(&self, pod: &PodView) -> Option<u32> {
        let hurry = match self.members.desired {
            // Pods that still run after their stage is complete have nothing to save.
            _ if self.is_of_earlier_stage(pod) => true,
            DesiredGang::Run(run) if pod.attempt < run.attempt.number => run.attempt.hurry,
            // No pod of a plan that was never complete has run as a gang. A pod whose replacement
            // is awaited may have failed by itself.
            DesiredGang::Run(run) => {
                let next = |g: &AwaitedGroup| g.name == pod.group && g.round > pod.round;
                !self.members.was_placed
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
        (hurry && self.members.grace > i64::from(SHORT_GRACE)).then_some(SHORT_GRACE)
    }
}

fn roll_back_step(reason: Reason) -> Step {
    GangStep::RollBack {
        reason,
        message: match reason {
            Reason::Restarting => "the gang is to be placed anew",
            Reason::PolicyViolation => "policies forbid what it runs",
            Reason::StageComplete => "the next stage is to be placed",
            _ => "the gang is no longer to run",
        }
        .to_owned(),
        failed: false,
    }
}
