//! Pods of other controllers, which Trellis binds: the pods that name one PodGroup.

use std::collections::BTreeSet;

use trellis_api::Reason;
use trellis_api::pod_group::{JournaledOrder, Plan};

use super::{Departures, GangStep, Members, ObservedGang, PodDeletion};
use crate::external::gang_members::{MAX_MEMBERS, is_in_place, ready_pods};
use crate::external::plan::planned_pods;
use crate::journal;
use crate::observed::{ExternalPod, ExternalPods, PodPhase};

/// A step that only an external gang has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalStep {
    /// Wait: nothing can be placed yet.
    Wait {
        /// The reason.
        reason: Reason,
        /// The reason in words.
        message: String,
    },
    /// Write that the gang is placed: its pods are bound, and no journal records it.
    Adopt,
}

type Step = GangStep<Vec<String>, String, ExternalStep>;

/// The pods of a PodGroup that a user wrote.
#[derive(Clone, Copy, Debug)]
pub struct ExternalMembers<'a> {
    /// Number of pods that must be placed together.
    pub min_member: i64,
    /// True if the PodGroup is being deleted.
    pub is_deleting: bool,
    /// Result of [`crate::external::gang_members::is_stopping`].
    pub is_stopping: bool,
    /// All pods that name the PodGroup.
    pub pods: &'a ExternalPods,
}

type Gang<'a> = ObservedGang<'a, ExternalMembers<'a>>;

impl<'a> Members for ExternalMembers<'a> {
    /// Names of the pods to place at once.
    type Request = Vec<String>;
    /// Name of a pod that came later and is placed singly.
    type Addition = String;
    type SpecialStep = ExternalStep;

    /// Returns the pods whose binding took effect after their plan was rolled back, because the
    /// answer was lost and the pod had no node when it was read. Such a pod would hold resources
    /// that the rest of its gang lacks.
    fn remove_strays(gang: &ObservedGang<'_, Self>) -> Option<Step> {
        let undone = &gang.journal.undone_plans;
        let is_late = |pod: &ExternalPod| {
            let plan = pod.plan.as_ref();
            pod.gang_charged_queue().is_some() && plan.is_some_and(|plan| undone.contains(plan))
        };
        gang.departing_pods(false, is_late).request_step()
    }

    fn pending_step(gang: &ObservedGang<'_, Self>) -> Step {
        let members = &gang.members;
        let least = usize::try_from(members.min_member).unwrap_or(0);
        if !(1..=MAX_MEMBERS).contains(&least) {
            let message = format!(
                "spec.minMember of the PodGroup is {} and must be 1 to {MAX_MEMBERS}: say how many pods must be placed together",
                members.min_member
            );
            let reason = Reason::InvalidSpec;
            return GangStep::Special(ExternalStep::Wait { reason, message });
        }
        // The pods were placed before the PodGroup or its journal existed, or the journal was
        // deleted. Trellis does not break up a running gang.
        let bound = gang.bound_pods().filter(|(_, pod)| !pod.deleting).count();
        if bound >= least {
            return GangStep::Special(ExternalStep::Adopt);
        }
        let mut ready = ready_pods(members.pods);
        let missing = least.saturating_sub(bound);
        if ready.len() >= missing {
            ready.truncate(missing);
            return GangStep::Enqueue(ready);
        }
        // Without pods, the last explanation for waiting is no longer true. A gang that was placed
        // or nominated gets no new explanation: its pods may have completed their work.
        let had_place = gang.journal.epoch.is_some() && gang.journal.reason.is_none();
        let lacks_all = members.pods.is_empty() && !had_place;
        if !lacks_all && !members.pods.values().any(|pod| pod.is_waiting()) {
            return GangStep::Withdraw;
        }
        gang.missing_members_step(least, bound, ready.len())
    }

    /// Autoscalers see external pods themselves, so the operator orders no nodes for them.
    fn wants_nodes(_: &ObservedGang<'_, Self>, _: &JournaledOrder) -> bool {
        false
    }

    fn wants_plan(gang: &ObservedGang<'_, Self>, plan: &Plan) -> bool {
        !gang.members.is_deleting && gang.has_planned_pods(plan, ExternalPod::is_waiting)
    }

    fn abandon_plan(gang: &ObservedGang<'_, Self>, plan: &Plan) -> Option<Step> {
        let (pod, node) = planned_pods(plan).find(|(planned, node)| {
            let pod = gang.members.pods.get(&planned.name);
            !pod.is_some_and(|pod| {
                let is_there = pod.uid == planned.uid && !pod.deleting;
                is_there && pod.node.as_deref().is_none_or(|there| there == *node)
            })
        })?;
        let live = gang.members.pods.get(&pod.name);
        let live = live.filter(|live| live.uid == pod.uid && !live.deleting);
        let message = match live.and_then(|live| live.node.as_deref()) {
            Some(there) => format!(
                "pod {:?} was planned on node {node:?}, and another client bound it to {there:?}",
                pod.name
            ),
            None => format!("pod {:?} is gone or is being deleted", pod.name),
        };
        Some(GangStep::RollBack {
            reason: Reason::PodRefused,
            message,
            failed: true,
        })
    }

    fn is_whole(gang: &ObservedGang<'_, Self>, plan: &Plan) -> bool {
        gang.has_planned_pods(plan, |pod| pod.node.is_some())
    }

    fn expiry(_: &ObservedGang<'_, Self>) -> (Reason, String) {
        let message = "the pods were not all bound before the plan's deadline";
        (Reason::PodRefused, message.to_owned())
    }

    fn maintain(gang: &ObservedGang<'_, Self>, _: &Plan) -> Option<Step> {
        if gang.bound_pods().next().is_none() {
            return Some(GangStep::ClearPlan);
        }
        let late = gang.overlong_deletions();
        if !late.is_empty() {
            return Some(GangStep::Delete(late));
        }
        gang.members.is_stopping.then_some(GangStep::AwaitPods)
    }

    fn additions(gang: &ObservedGang<'_, Self>, _: &Plan) -> Vec<String> {
        ready_pods(gang.members.pods)
    }

    /// If the gang makes room, all its pods that hold a node are removed, including those that
    /// joined later. If its plan failed, only the pods that the plan has bound are removed: they
    /// hold resources while the gang cannot run.
    fn departures(gang: &ObservedGang<'_, Self>, patient: bool) -> Departures {
        let plan = gang.journal.plan.as_ref();
        let of_plan: BTreeSet<&str> = plan
            .into_iter()
            .flat_map(planned_pods)
            .map(|(pod, _)| pod.uid.as_str())
            .collect();
        let hash = plan.map(|plan| plan.hash.as_str());
        let makes_room = journal::is_preempted(gang.journal);
        gang.departing_pods(patient, |pod| {
            let is_planned = of_plan.contains(pod.uid.as_str()) && pod.plan.as_deref() == hash;
            is_planned || (makes_room && is_in_place(gang.journal, pod))
        })
    }

    fn unwound_step(_: &ObservedGang<'_, Self>) -> Step {
        GangStep::ClearPlan
    }

    /// Handles a gang that has ended. An external gang never ends, because its pods may come back.
    fn finished_step(gang: &ObservedGang<'_, Self>) -> Step {
        Self::pending_step(gang)
    }
}

impl Gang<'_> {
    fn missing_members_step(&self, least: usize, bound: usize, ready: usize) -> Step {
        let gated = self.members.pods.values().filter(|pod| pod.is_waiting());
        let gated = gated
            .filter(|pod| pod.scheduling_gates().next().is_some())
            .count();
        let there = bound.saturating_add(ready);
        let mut message = format!(
            "{there} of the {least} pods are there that the PodGroup asks for (spec.minMember)"
        );
        if gated > 0 {
            let have = if gated == 1 { "has" } else { "have" };
            message.push_str(&format!("; {gated} more {have} scheduling gates"));
        }
        let reason = Reason::MembersMissing;
        GangStep::Special(ExternalStep::Wait { reason, message })
    }

    /// Returns true if every pod of the plan exists and matches the predicate.
    fn has_planned_pods(&self, plan: &Plan, such: impl Fn(&ExternalPod) -> bool) -> bool {
        planned_pods(plan).all(|(planned, _)| {
            let pod = self.members.pods.get(&planned.name);
            pod.is_some_and(|pod| pod.uid == planned.uid && such(pod))
        })
    }

    /// Returns the bound pods that match the predicate. No budget protects a pod that does not run
    /// yet. Its eviction shows its controller that the pod itself did not fail. A pod that runs is
    /// evicted while its gang is patient.
    fn departing_pods(&self, patient: bool, which: impl Fn(&ExternalPod) -> bool) -> Departures {
        let mut leaving = Departures::default();
        for (name, pod) in self.bound_pods().filter(|(_, pod)| which(pod)) {
            leaving.are_left = true;
            if !pod.can_be_deleted() || !self.deletions.is_due(&pod.uid, false, self.clock) {
                continue;
            }
            let is_starting = pod.phase == PodPhase::Pending && !pod.has_overlong_grace;
            let list = match patient || is_starting {
                true => &mut leaving.evicted,
                false => &mut leaving.deleted,
            };
            list.push(PodDeletion::from_external_pod(name, pod));
        }
        leaving
    }

    /// Returns the pods of the place that a user has deleted with more than the longest grace
    /// period.
    fn overlong_deletions(&self) -> Vec<PodDeletion> {
        let late = self.bound_pods().filter(|(_, pod)| pod.has_overlong_grace);
        let late = late.filter(|(_, pod)| {
            is_in_place(self.journal, pod) && self.deletions.is_due(&pod.uid, false, self.clock)
        });
        late.map(|(name, pod)| PodDeletion::from_external_pod(name, pod))
            .collect()
    }

    fn bound_pods(&self) -> impl Iterator<Item = (&String, &ExternalPod)> {
        let all = self.members.pods.iter().map(|(name, pod)| (name, &**pod));
        all.filter(|(_, pod)| pod.is_bound())
    }
}

#[cfg(test)]
mod tests;
