//! What is to be done about the gang of a PodGroup next: a pure function of what the PodGroup
//! says, its journal and which pods there are, as `keeper` is for a job.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::pod_group::{Plan, PlannedPod, PodGroupPhase, PodGroupStatus};

use crate::gang::deletions::Deletions;
use crate::gang::journal::Author;
use crate::gang::keeper::Doomed;
use crate::gang::observed::{ExternalPod, ExternalPods, PodPhase};

/// Pods of the largest gang: its plan names each, and must fit into one object.
pub const MOST_MEMBERS: usize = 4096;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing can be placed yet, for this reason.
    Wait {
        /// Why.
        reason: Reason,
        /// The same in words.
        message: String,
    },
    /// Let the engine find a place for these pods, all at once.
    Enqueue(Vec<String>),
    /// No pod waits: nothing is asked for.
    Withdraw,
    /// Write that what an earlier leader had begun is gone on with.
    TakeOver,
    /// Tell those who make room, and follow them.
    Follow,
    /// Write that the place is given up before it was had.
    Void,
    /// Bind the pods of the plan that are not bound yet, and close it.
    Bind,
    /// Write that the gang has its place: its pods are bound, and no journal says so.
    Adopt,
    /// The place is the gang's; these pods came later, and are placed one by one.
    Hold(Vec<String>),
    /// Write that the plan is being undone.
    Undo {
        /// Why.
        reason: Reason,
        /// The same in words.
        message: String,
        /// It failed, and the next try waits.
        failed: bool,
    },
    /// Delete these pods: whoever made them makes them anew.
    Delete(Vec<Doomed>),
    /// Evict these pods: a PodDisruptionBudget may say not yet.
    Evict(Vec<Doomed>),
    /// Wait until those that were told to go are gone.
    AwaitPods,
    /// Write that nothing is left of the plan.
    Clear,
}

/// What is seen of the gang of one PodGroup.
#[derive(Clone, Copy, Debug)]
pub struct Gang<'a> {
    /// Pods that must be placed together.
    pub min_member: i64,
    /// The PodGroup is being deleted.
    pub goes: bool,
    /// As [`ends`] says.
    pub ends: bool,
    /// The journal.
    pub journal: &'a PodGroupStatus,
    /// Whose its open plan is. None: we do not lead any more.
    pub author: Option<Author>,
    /// All pods that name the PodGroup.
    pub pods: &'a ExternalPods,
    /// It is to make room: for whom and why, in words.
    pub told: Option<&'a str>,
    /// Deletes that have been asked for.
    pub deletions: &'a Deletions,
    /// The time.
    pub now: Timestamp,
    /// The same by a clock that is never set.
    pub clock: Instant,
}

/// The pods of a plan, with their nodes.
pub fn planned(plan: &Plan) -> impl Iterator<Item = (&PlannedPod, &str)> {
    plan.assignments
        .iter()
        .flat_map(|run| run.pods.iter().map(|pod| (pod, run.node.as_str())))
}

/// Pods that may be placed, in the order in which they make a gang: by their number, then by age.
pub fn ready(pods: &ExternalPods) -> Vec<String> {
    let is_ready = |pod: &ExternalPod| pod.waits() && pod.gates().next().is_none();
    let ready = pods.iter().filter(|(_, pod)| is_ready(pod));
    let mut ready: Vec<_> = ready
        .map(|(name, pod)| (pod.index.unwrap_or(u32::MAX), pod.created, name))
        .collect();
    ready.sort();
    ready.into_iter().map(|(.., name)| name.clone()).collect()
}

/// True if what the pod holds is part of the gang's place, by its plan or as one that came later.
/// Any other that names the PodGroup and that Trellis has bound counts by itself, in the queue that
/// it was bound in: a PodGroup that comes later, or is another by now, moves nothing elsewhere.
pub fn is_of_place(journal: &PodGroupStatus, pod: &ExternalPod) -> bool {
    let (Some(queue), Some(plan)) = (pod.counts_in(), &journal.plan) else {
        return false;
    };
    match journal.phase {
        Some(PodGroupPhase::Committing) => pod.plan.as_ref() == Some(&plan.hash),
        Some(PodGroupPhase::Placed | PodGroupPhase::Unwinding) => {
            pod.counts_with_its_gang().is_some() && plan.queue.as_deref() == Some(queue)
        }
        _ => false,
    }
}

/// True of a gang of which only pods are left that stop: those that come now are the next gang, and
/// wait for each other.
///
/// `is_lost`: nobody is left to stop pods of that node, and they may be there for ever.
pub fn ends(journal: &PodGroupStatus, pods: &ExternalPods, is_lost: impl Fn(&str) -> bool) -> bool {
    let left = pods.values().filter(|pod| is_of_place(journal, pod));
    let left = left.filter(|pod| !pod.node.as_deref().is_some_and(&is_lost));
    let mut left = left.peekable();
    let is_placed = journal.phase == Some(PodGroupPhase::Placed);
    is_placed && left.peek().is_some() && left.all(|pod| pod.deleting)
}

impl Gang<'_> {
    /// What is to be done next.
    #[must_use]
    pub fn next(&self) -> Step {
        if let Some(step) = self.stop_late() {
            return step;
        }
        match self.journal.phase.unwrap_or_default() {
            PodGroupPhase::Pending | PodGroupPhase::Finished => self.pending(),
            PodGroupPhase::Nominated => self.nominated(),
            PodGroupPhase::Committing => self.committing(),
            PodGroupPhase::Placed => self.placed(),
            PodGroupPhase::Unwinding => self.unwinding(),
        }
    }

    /// A binding may commit after its plan has been undone: its answer was lost, and the pod had no
    /// node when it was read. Such a pod would hold what the rest of its gang lacks.
    fn stop_late(&self) -> Option<Step> {
        let undone = &self.journal.undone_plans;
        let is_late = |pod: &ExternalPod| {
            let plan = pod.plan.as_ref();
            pod.counts_with_its_gang().is_some() && plan.is_some_and(|plan| undone.contains(plan))
        };
        let late = self
            .bound()
            .filter(|(_, pod)| is_late(pod) && pod.can_be_deleted());
        let due = late.filter(|(_, pod)| self.deletions.is_due(&pod.uid, false, self.clock));
        let (starting, running): (Vec<_>, Vec<_>) =
            due.partition(|(_, pod)| pod.phase == PodPhase::Pending);
        let doomed = |pods: Vec<(&String, &ExternalPod)>| {
            let pods = pods.into_iter();
            pods.map(|(name, pod)| Doomed::external(name, pod))
                .collect()
        };
        match (starting.is_empty(), running.is_empty()) {
            // As of a plan that is being undone.
            (false, _) => Some(Step::Evict(doomed(starting))),
            (true, false) => Some(Step::Delete(doomed(running))),
            (true, true) => None,
        }
    }

    fn pending(&self) -> Step {
        let least = usize::try_from(self.min_member).unwrap_or(0);
        if !(1..=MOST_MEMBERS).contains(&least) {
            let message = format!(
                "spec.minMember of the PodGroup is {} and must be 1 to {MOST_MEMBERS}: say how many pods must be placed together",
                self.min_member
            );
            let reason = Reason::InvalidSpec;
            return Step::Wait { reason, message };
        }
        // Placed before there was a PodGroup, or its journal was deleted: what runs is not torn.
        let bound = self.bound().filter(|(_, pod)| !pod.deleting).count();
        if bound >= least {
            return Step::Adopt;
        }
        let mut ready = ready(self.pods);
        let missing = least.saturating_sub(bound);
        if ready.len() >= missing {
            ready.truncate(missing);
            return Step::Enqueue(ready);
        }
        // Without pods it is no longer so what was said last of why they wait. Of a gang that had
        // its place, or was promised one, nothing is said: its pods may have done what they were
        // for.
        let had_place = self.journal.epoch.is_some() && self.journal.reason.is_none();
        let lacks_all = self.pods.is_empty() && !had_place;
        if !lacks_all && !self.pods.values().any(|pod| pod.waits()) {
            return Step::Withdraw;
        }
        self.members_missing(least, bound, ready.len())
    }

    fn members_missing(&self, least: usize, bound: usize, ready: usize) -> Step {
        let gated = self.pods.values().filter(|pod| pod.waits());
        let gated = gated.filter(|pod| pod.gates().next().is_some()).count();
        let there = bound.saturating_add(ready);
        let mut message = format!(
            "{there} of the {least} pods are there that the PodGroup asks for (spec.minMember)"
        );
        if gated > 0 {
            let have = if gated == 1 { "has" } else { "have" };
            message.push_str(&format!("; {gated} more {have} scheduling gates"));
        }
        let reason = Reason::MembersMissing;
        Step::Wait { reason, message }
    }

    fn nominated(&self) -> Step {
        match self.author {
            _ if !self.is_whole(|pod| pod.waits()) || self.goes => Step::Void,
            Some(Author::Ours) => Step::Follow,
            Some(Author::Predecessor) => Step::TakeOver,
            Some(Author::Stale) | None => Step::Void,
        }
    }

    /// Every pod of the plan is there, and such a one.
    fn is_whole(&self, such: impl Fn(&ExternalPod) -> bool) -> bool {
        let Some(plan) = &self.journal.plan else {
            return false;
        };
        let mut all = planned(plan);
        all.all(|(planned, _)| {
            let pod = self.pods.get(&planned.name);
            pod.is_some_and(|pod| pod.uid == planned.uid && such(pod))
        })
    }

    fn committing(&self) -> Step {
        let undo = |message: String, failed: bool| Step::Undo {
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
        for (planned, node) in planned(plan) {
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
        if let Some(message) = self.told {
            return Step::Undo {
                reason: Reason::Preempted,
                message: message.to_owned(),
                failed: false,
            };
        }
        // Of one that is whole only the closing is late: there is nothing to undo.
        let is_bound = self.is_whole(|pod| pod.node.is_some());
        let expired = plan.deadline.as_ref().is_none_or(|d| d.0 <= self.now);
        match self.author {
            _ if expired && !is_bound => undo(
                "the pods were not all bound before the plan's deadline".to_owned(),
                true,
            ),
            Some(Author::Ours) => Step::Bind,
            Some(Author::Predecessor) => Step::TakeOver,
            Some(Author::Stale) | None => undo(
                "the plan was written by a process that no longer leads".to_owned(),
                false,
            ),
        }
    }

    fn placed(&self) -> Step {
        if self.bound().next().is_none() {
            return Step::Clear;
        }
        let late = self.stopping_too_late();
        if !late.is_empty() {
            return Step::Delete(late);
        }
        if self.ends {
            return Step::AwaitPods;
        }
        match self.told {
            Some(message) => Step::Undo {
                reason: Reason::Preempted,
                message: message.to_owned(),
                failed: false,
            },
            None => Step::Hold(ready(self.pods)),
        }
    }

    /// Of one that makes room all go that hold a node, later ones too. Of a torn one those that its
    /// plan has bound: they would hold what the others cannot run with.
    fn unwinding(&self) -> Step {
        let makes_room = self.journal.reason == Some(Reason::Preempted);
        let plan = self.journal.plan.as_ref();
        let of_plan: BTreeSet<&str> = plan
            .into_iter()
            .flat_map(planned)
            .map(|(pod, _)| pod.uid.as_str())
            .collect();
        let hash = plan.map(|plan| plan.hash.as_str());
        let goes = |pod: &ExternalPod| {
            let is_planned = of_plan.contains(pod.uid.as_str()) && pod.plan.as_deref() == hash;
            is_planned || (makes_room && is_of_place(self.journal, pod))
        };
        let mut waits = false;
        // No budget keeps a pod that does not run yet, and whoever made it is told by an eviction
        // that it is not to blame.
        let (mut starting, mut running) = (Vec::new(), Vec::new());
        for (name, pod) in self.bound().filter(|(_, pod)| goes(pod)) {
            waits = true;
            if pod.can_be_deleted() && self.deletions.is_due(&pod.uid, false, self.clock) {
                let list = match pod.phase {
                    PodPhase::Pending if !pod.stops_too_late => &mut starting,
                    _ => &mut running,
                };
                list.push(Doomed::external(name, pod));
            }
        }
        let until = self.journal.evict_until.as_ref();
        let patient = makes_room && until.is_some_and(|until| until.0 > self.now);
        if patient {
            starting.append(&mut running);
        }
        match (starting.is_empty(), running.is_empty()) {
            (false, _) => Step::Evict(starting),
            (true, false) => Step::Delete(running),
            (true, true) if waits => Step::AwaitPods,
            (true, true) => Step::Clear,
        }
    }

    /// Pods of the place that a user has deleted with more than the longest grace.
    fn stopping_too_late(&self) -> Vec<Doomed> {
        let late = self.bound().filter(|(_, pod)| pod.stops_too_late);
        let late = late.filter(|(_, pod)| {
            is_of_place(self.journal, pod) && self.deletions.is_due(&pod.uid, false, self.clock)
        });
        late.map(|(name, pod)| Doomed::external(name, pod))
            .collect()
    }

    fn bound(&self) -> impl Iterator<Item = (&String, &ExternalPod)> {
        let all = self.pods.iter().map(|(name, pod)| (name, &**pod));
        all.filter(|(_, pod)| pod.is_bound())
    }
}
