//! Decides the next step for the gang of a PodGroup: a pure function of the PodGroup, its journal
//! and its pods, as `gang_step` is for a job.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::pod_group::{Plan, PlannedPod, PodGroupPhase, PodGroupStatus};

use crate::deletions::Deletions;
use crate::gang_step::PodDeletion;
use crate::journal::PlanAuthor;
use crate::observed::{ExternalPod, ExternalPods, PodPhase};

/// Number of pods of the largest gang: its plan names each pod, and must fit into one object.
pub const MAX_MEMBERS: usize = 4096;

/// The next step for a gang.
#[derive(Clone, Debug, PartialEq)]
pub enum ExternalGangStep {
    /// Wait: nothing can be placed yet.
    Wait {
        /// The reason.
        reason: Reason,
        /// The reason in words.
        message: String,
    },
    /// Let the engine find a place for all these pods at once.
    Enqueue(Vec<String>),
    /// Remove the gang from the engine: no pod waits.
    Withdraw,
    /// Write that this leader continues the plan of an earlier leader.
    TakeOver,
    /// Ask the victims of the plan to leave, and wait for them.
    Follow,
    /// Write that the gang gives up the place that it was nominated for.
    Void,
    /// Bind the pods of the plan that are not bound yet, and close the plan.
    Bind,
    /// Write that the gang is placed: its pods are bound, and no journal records it.
    Adopt,
    /// Keep the gang's place; place these pods, which came later, one by one.
    Hold(Vec<String>),
    /// Write that the plan is rolled back.
    RollBack {
        /// The reason.
        reason: Reason,
        /// The reason in words.
        message: String,
        /// True if the plan failed, so that the next attempt waits.
        failed: bool,
    },
    /// Delete these pods: their controller creates them anew.
    Delete(Vec<PodDeletion>),
    /// Evict these pods: a PodDisruptionBudget may delay that.
    Evict(Vec<PodDeletion>),
    /// Wait until the pods that are being deleted are gone.
    AwaitPods,
    /// Write that no pod of the plan is left.
    Clear,
}

/// The observed state of a PodGroup's gang.
#[derive(Clone, Copy, Debug)]
pub struct ObservedPodGroup<'a> {
    /// Number of pods that must be placed together.
    pub min_member: i64,
    /// True if the PodGroup is being deleted.
    pub is_deleting: bool,
    /// Result of [`is_stopping`].
    pub is_stopping: bool,
    /// The journal.
    pub journal: &'a PodGroupStatus,
    /// Author of its open plan. None if this process does not lead any more.
    pub author: Option<PlanAuthor>,
    /// All pods that name the PodGroup.
    pub pods: &'a ExternalPods,
    /// Set if the gang must make room: for which gang and why, in words.
    pub preemption_message: Option<&'a str>,
    /// Deletes that were requested.
    pub deletions: &'a Deletions,
    /// The wall-clock time.
    pub now: Timestamp,
    /// The monotonic time.
    pub clock: Instant,
}

/// The pods of a plan, with their nodes.
pub fn planned_pods(plan: &Plan) -> impl Iterator<Item = (&PlannedPod, &str)> {
    plan.assignments
        .iter()
        .flat_map(|run| run.pods.iter().map(|pod| (pod, run.node.as_str())))
}

/// Pods that can be placed, in the order in which they fill the gang: by index, then by age.
pub fn ready_pods(pods: &ExternalPods) -> Vec<String> {
    let is_ready = |pod: &ExternalPod| pod.is_waiting() && pod.scheduling_gates().next().is_none();
    let ready = pods.iter().filter(|(_, pod)| is_ready(pod));
    let mut ready: Vec<_> = ready
        .map(|(name, pod)| (pod.index.unwrap_or(u32::MAX), pod.created, name))
        .collect();
    ready.sort();
    ready.into_iter().map(|(.., name)| name.clone()).collect()
}

/// True if the pod is part of the gang's place, by its plan or because it joined later. Any other
/// pod of the PodGroup that Trellis has bound counts by itself in the queue that it was bound in: a
/// PodGroup that is created or changed later moves no pod to another queue.
pub fn is_in_place(journal: &PodGroupStatus, pod: &ExternalPod) -> bool {
    let (Some(queue), Some(plan)) = (pod.charged_queue(), &journal.plan) else {
        return false;
    };
    match journal.phase {
        Some(PodGroupPhase::Committing) => pod.plan.as_ref() == Some(&plan.hash),
        Some(PodGroupPhase::Placed | PodGroupPhase::Unwinding) => {
            pod.gang_charged_queue().is_some() && plan.queue.as_deref() == Some(queue)
        }
        _ => false,
    }
}

/// True if all remaining pods of a placed gang are being deleted: pods that are created now form
/// the next gang, and wait for each other.
///
/// `is_lost` tells whether no kubelet is left to stop the pods of a node: such pods may stay for
/// ever.
pub fn is_stopping(
    journal: &PodGroupStatus,
    pods: &ExternalPods,
    is_lost: impl Fn(&str) -> bool,
) -> bool {
    let left = pods.values().filter(|pod| is_in_place(journal, pod));
    let left = left.filter(|pod| !pod.node.as_deref().is_some_and(&is_lost));
    let mut left = left.peekable();
    let is_placed = journal.phase == Some(PodGroupPhase::Placed);
    is_placed && left.peek().is_some() && left.all(|pod| pod.deleting)
}

impl ObservedPodGroup<'_> {
    /// Decides the next step.
    #[must_use]
    pub fn next_step(&self) -> ExternalGangStep {
        if let Some(step) = self.stop_late_bindings() {
            return step;
        }
        match self.journal.phase.unwrap_or_default() {
            PodGroupPhase::Pending | PodGroupPhase::Finished => self.pending_step(),
            PodGroupPhase::Nominated => self.nominated_step(),
            PodGroupPhase::Committing => self.committing_step(),
            PodGroupPhase::Placed => self.placed_step(),
            PodGroupPhase::Unwinding => self.unwinding_step(),
        }
    }

    /// Pods whose binding took effect after their plan was rolled back, because the answer was lost
    /// and the pod had no node when it was read. Such a pod would hold resources that the rest of
    /// its gang lacks.
    fn stop_late_bindings(&self) -> Option<ExternalGangStep> {
        let undone = &self.journal.undone_plans;
        let is_late = |pod: &ExternalPod| {
            let plan = pod.plan.as_ref();
            pod.gang_charged_queue().is_some() && plan.is_some_and(|plan| undone.contains(plan))
        };
        let late = self
            .bound_pods()
            .filter(|(_, pod)| is_late(pod) && pod.can_be_deleted());
        let due = late.filter(|(_, pod)| self.deletions.is_due(&pod.uid, false, self.clock));
        let (starting, running): (Vec<_>, Vec<_>) =
            due.partition(|(_, pod)| pod.phase == PodPhase::Pending);
        let doomed = |pods: Vec<(&String, &ExternalPod)>| {
            let pods = pods.into_iter();
            pods.map(|(name, pod)| PodDeletion::from_external_pod(name, pod))
                .collect()
        };
        match (starting.is_empty(), running.is_empty()) {
            // Pending pods are evicted and running pods deleted, as in a rollback.
            (false, _) => Some(ExternalGangStep::Evict(doomed(starting))),
            (true, false) => Some(ExternalGangStep::Delete(doomed(running))),
            (true, true) => None,
        }
    }

    fn pending_step(&self) -> ExternalGangStep {
        let least = usize::try_from(self.min_member).unwrap_or(0);
        if !(1..=MAX_MEMBERS).contains(&least) {
            let message = format!(
                "spec.minMember of the PodGroup is {} and must be 1 to {MAX_MEMBERS}: say how many pods must be placed together",
                self.min_member
            );
            let reason = Reason::InvalidSpec;
            return ExternalGangStep::Wait { reason, message };
        }
        // The pods were placed before the PodGroup or its journal existed, or the journal was
        // deleted. A running gang is not torn apart.
        let bound = self.bound_pods().filter(|(_, pod)| !pod.deleting).count();
        if bound >= least {
            return ExternalGangStep::Adopt;
        }
        let mut ready = ready_pods(self.pods);
        let missing = least.saturating_sub(bound);
        if ready.len() >= missing {
            ready.truncate(missing);
            return ExternalGangStep::Enqueue(ready);
        }
        // Without pods, the last explanation for waiting is no longer true. A gang that was placed
        // or nominated gets no new explanation: its pods may have completed their work.
        let had_place = self.journal.epoch.is_some() && self.journal.reason.is_none();
        let lacks_all = self.pods.is_empty() && !had_place;
        if !lacks_all && !self.pods.values().any(|pod| pod.is_waiting()) {
            return ExternalGangStep::Withdraw;
        }
        self.missing_members_step(least, bound, ready.len())
    }

    fn missing_members_step(&self, least: usize, bound: usize, ready: usize) -> ExternalGangStep {
        let gated = self.pods.values().filter(|pod| pod.is_waiting());
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
        ExternalGangStep::Wait { reason, message }
    }

    fn nominated_step(&self) -> ExternalGangStep {
        match self.author {
            _ if !self.is_complete(|pod| pod.is_waiting()) || self.is_deleting => {
                ExternalGangStep::Void
            }
            Some(PlanAuthor::ThisLeader) => ExternalGangStep::Follow,
            Some(PlanAuthor::Predecessor) => ExternalGangStep::TakeOver,
            Some(PlanAuthor::Stale) | None => ExternalGangStep::Void,
        }
    }

    /// True if every pod of the plan exists and matches the predicate.
    fn is_complete(&self, such: impl Fn(&ExternalPod) -> bool) -> bool {
        let Some(plan) = &self.journal.plan else {
            return false;
        };
        let mut all = planned_pods(plan);
        all.all(|(planned, _)| {
            let pod = self.pods.get(&planned.name);
            pod.is_some_and(|pod| pod.uid == planned.uid && such(pod))
        })
    }

    fn committing_step(&self) -> ExternalGangStep {
        let undo = |message: String, failed: bool| ExternalGangStep::RollBack {
            reason: if failed {
                Reason::PodRefused
            } else {
                Reason::Restarting
            },
            message,
            failed,
        };
        let Some(plan) = &self.journal.plan else {
            return undo("the journal names no plan".to_owned(), false);
        };
        for (planned, node) in planned_pods(plan) {
            let pod = self.pods.get(&planned.name);
            let pod = pod.filter(|pod| pod.uid == planned.uid && !pod.deleting);
            let Some(pod) = pod else {
                let message = format!("pod {:?} is gone, or going", planned.name);
                return undo(message, true);
            };
            let elsewhere = pod.node.as_deref().filter(|there| *there != node);
            if let Some(there) = elsewhere {
                let message = format!(
                    "pod {:?} was to be on node {node:?} and was bound to {there:?} by somebody else",
                    planned.name
                );
                return undo(message, true);
            }
        }
        if let Some(message) = self.preemption_message {
            return ExternalGangStep::RollBack {
                reason: Reason::Preempted,
                message: message.to_owned(),
                failed: false,
            };
        }
        // If all pods are bound, only the write that closes the plan is late: there is nothing to
        // roll back.
        let is_bound = self.is_complete(|pod| pod.node.is_some());
        let expired = plan.deadline.as_ref().is_none_or(|d| d.0 <= self.now);
        match self.author {
            _ if expired && !is_bound => undo(
                "the pods were not all bound before the plan's deadline".to_owned(),
                true,
            ),
            Some(PlanAuthor::ThisLeader) => ExternalGangStep::Bind,
            Some(PlanAuthor::Predecessor) => ExternalGangStep::TakeOver,
            Some(PlanAuthor::Stale) | None => undo(
                "the plan was written by a process that no longer leads".to_owned(),
                false,
            ),
        }
    }

    fn placed_step(&self) -> ExternalGangStep {
        if self.bound_pods().next().is_none() {
            return ExternalGangStep::Clear;
        }
        let late = self.overlong_deletions();
        if !late.is_empty() {
            return ExternalGangStep::Delete(late);
        }
        if self.is_stopping {
            return ExternalGangStep::AwaitPods;
        }
        match self.preemption_message {
            Some(message) => ExternalGangStep::RollBack {
                reason: Reason::Preempted,
                message: message.to_owned(),
                failed: false,
            },
            None => ExternalGangStep::Hold(ready_pods(self.pods)),
        }
    }

    /// If the gang makes room, all its pods that hold a node are removed, including those that
    /// joined later. If its plan failed, only the pods that the plan has bound are removed: they
    /// hold resources while the gang cannot run.
    fn unwinding_step(&self) -> ExternalGangStep {
        let makes_room = self.journal.reason == Some(Reason::Preempted);
        let plan = self.journal.plan.as_ref();
        let of_plan: BTreeSet<&str> = plan
            .into_iter()
            .flat_map(planned_pods)
            .map(|(pod, _)| pod.uid.as_str())
            .collect();
        let hash = plan.map(|plan| plan.hash.as_str());
        let goes = |pod: &ExternalPod| {
            let is_planned = of_plan.contains(pod.uid.as_str()) && pod.plan.as_deref() == hash;
            is_planned || (makes_room && is_in_place(self.journal, pod))
        };
        let mut waits = false;
        // No budget protects a pod that does not run yet. An eviction tells its controller that the
        // pod itself did not fail.
        let (mut starting, mut running) = (Vec::new(), Vec::new());
        for (name, pod) in self.bound_pods().filter(|(_, pod)| goes(pod)) {
            waits = true;
            if pod.can_be_deleted() && self.deletions.is_due(&pod.uid, false, self.clock) {
                let list = match pod.phase {
                    PodPhase::Pending if !pod.has_overlong_grace => &mut starting,
                    _ => &mut running,
                };
                list.push(PodDeletion::from_external_pod(name, pod));
            }
        }
        let until = self.journal.evict_until.as_ref();
        let patient = makes_room && until.is_some_and(|until| until.0 > self.now);
        if patient {
            starting.append(&mut running);
        }
        match (starting.is_empty(), running.is_empty()) {
            (false, _) => ExternalGangStep::Evict(starting),
            (true, false) => ExternalGangStep::Delete(running),
            (true, true) if waits => ExternalGangStep::AwaitPods,
            (true, true) => ExternalGangStep::Clear,
        }
    }

    /// Pods of the place that a user has deleted with more than the longest grace period.
    fn overlong_deletions(&self) -> Vec<PodDeletion> {
        let late = self.bound_pods().filter(|(_, pod)| pod.has_overlong_grace);
        let late = late.filter(|(_, pod)| {
            is_in_place(self.journal, pod) && self.deletions.is_due(&pod.uid, false, self.clock)
        });
        late.map(|(name, pod)| PodDeletion::from_external_pod(name, pod))
            .collect()
    }

    fn bound_pods(&self) -> impl Iterator<Item = (&String, &ExternalPod)> {
        let all = self.pods.iter().map(|(name, pod)| (name, &**pod));
        all.filter(|(_, pod)| pod.is_bound())
    }
}
