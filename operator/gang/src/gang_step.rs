//! Decides the next step for one gang: a pure function of its journal and its pods. The driver
//! carries out the step and then requests the next one, so a crash between two steps loses nothing.
//!
//! The machine is the same for all gangs. [`Members`] is the difference between the pods that
//! Trellis creates for a TrainingJob (`created_members`) and the pods of other controllers, which
//! Trellis binds (`external_members`).

mod created_members;
pub mod deletions;
mod external_members;
mod pod_replacement;
mod slice_replacement;

pub use created_members::{CreatedMembers, CreatedStep, WholeGang};
pub use external_members::{ExternalMembers, ExternalStep};
pub use pod_replacement::{MissingPod, SurplusPods};
pub use slice_replacement::SliceReplacement;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::pod_group::{JournaledOrder, Plan, PodGroupPhase, PodGroupStatus};

use super::journal::{self, PlanAuthor};
use crate::observed::ExternalPod;
use deletions::Deletions;

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
    /// Returns a pod that another controller made.
    #[must_use]
    pub(crate) fn from_external_pod(name: &str, pod: &ExternalPod) -> Self {
        Self {
            name: name.to_owned(),
            uid: pod.uid.clone(),
            force: false,
            grace: Some(pod.grace),
        }
    }
}

/// The next step for a gang. `Request` selects the members to place, `Addition` is a pod that joins
/// a placed gang, and `Special` is a step that only gangs with such members have.
#[derive(Clone, Debug, PartialEq)]
pub enum GangStep<Request, Addition, Special> {
    /// Wait until the pods of an earlier place are gone.
    AwaitPods,
    /// Let the engine find a place.
    Enqueue(Request),
    /// Remove the gang from the engine.
    Withdraw,
    /// Write that this leader continues the plan of an earlier leader.
    TakeOver,
    /// Ask the victims of the nominated gang to leave, and wait until they have left.
    RemoveVictims,
    /// Write that the gang gives up its nomination.
    CancelNomination,
    /// Write that the gang gives up the new nodes that are on order for it.
    EndProvisioning,
    /// Carry out the plan of the journal.
    Commit,
    /// Keep the gang's place, and add these pods.
    KeepPlace(Vec<Addition>),
    /// Write that the plan is rolled back.
    RollBack {
        /// The reason.
        reason: Reason,
        /// The reason in words.
        message: String,
        /// True if the plan failed, so that the next attempt waits.
        failed: bool,
    },
    /// Delete these pods.
    Delete(Vec<PodDeletion>),
    /// Evict these pods: a PodDisruptionBudget may delay that.
    Evict(Vec<PodDeletion>),
    /// Write that no pod of the plan is left.
    ClearPlan,
    /// Do nothing, because this process no longer leads.
    StandBy,
    /// A step that only gangs with such members have.
    Special(Special),
}

/// The step of a gang with these members.
pub type StepOf<M> =
    GangStep<<M as Members>::Request, <M as Members>::Addition, <M as Members>::SpecialStep>;

/// The observed state of one gang.
#[derive(Clone, Copy, Debug)]
pub struct ObservedGang<'a, M> {
    /// The journal.
    pub journal: &'a PodGroupStatus,
    /// Author of the open plan. None if this process does not lead any more.
    pub author: Option<PlanAuthor>,
    /// Set if the gang must make room: for which gang and why, in words.
    pub preemption_message: Option<&'a str>,
    /// Deletes that were requested.
    pub deletions: &'a Deletions,
    /// The wall-clock time.
    pub now: Timestamp,
    /// The monotonic time, which measures pauses.
    pub clock: Instant,
    /// The pods of the gang, and their desired state.
    pub members: M,
}

/// The part of the machine that depends on the members.
pub trait Members: Sized {
    /// Selects the members that the engine places.
    type Request;
    /// A pod that joins a placed gang.
    type Addition;
    /// A step that only gangs with such members have.
    type SpecialStep;

    /// Removes pods that may not exist in this phase, before anything else is done. None: there are
    /// none.
    fn remove_strays(gang: &ObservedGang<'_, Self>) -> Option<StepOf<Self>>;

    /// Returns the step of a gang without a plan.
    fn pending_step(gang: &ObservedGang<'_, Self>) -> StepOf<Self>;

    /// Returns true if the gang still wants the new nodes that are on order for it.
    fn wants_nodes(gang: &ObservedGang<'_, Self>, nodes: &JournaledOrder) -> bool;

    /// Returns true if the gang still wants the plan for which victims leave.
    fn wants_plan(gang: &ObservedGang<'_, Self>, plan: &Plan) -> bool;

    /// Returns the step of a gang whose open plan must not be carried out. None: the plan
    /// continues.
    fn abandon_plan(gang: &ObservedGang<'_, Self>, plan: &Plan) -> Option<StepOf<Self>>;

    /// Returns true if every pod of the plan exists on its node.
    fn is_whole(gang: &ObservedGang<'_, Self>, plan: &Plan) -> bool;

    /// Returns the reason and message of a plan that is not whole at its deadline.
    fn expiry(gang: &ObservedGang<'_, Self>) -> (Reason, String);

    /// Returns the step that a placed gang takes before it makes room for another gang. None: there
    /// is no such step.
    fn maintain(gang: &ObservedGang<'_, Self>, plan: &Plan) -> Option<StepOf<Self>>;

    /// Returns the pods that join the placed gang.
    fn additions(gang: &ObservedGang<'_, Self>, plan: &Plan) -> Vec<Self::Addition>;

    /// Returns the pods that leave when the plan is rolled back. `patient` is true while budgets
    /// may delay their eviction.
    fn departures(gang: &ObservedGang<'_, Self>, patient: bool) -> Departures;

    /// Returns the step of a gang whose plan is rolled back and whose pods have left.
    fn unwound_step(gang: &ObservedGang<'_, Self>) -> StepOf<Self>;

    /// Returns the step of a gang that has ended.
    fn finished_step(gang: &ObservedGang<'_, Self>) -> StepOf<Self>;
}

/// Pods that leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Departures {
    /// Pods to delete now.
    pub deleted: Vec<PodDeletion>,
    /// Pods to evict now.
    pub evicted: Vec<PodDeletion>,
    /// True if pods have yet to leave, even if they were asked already.
    pub are_left: bool,
}

impl Departures {
    /// Returns the step that asks pods to leave. None: no pod needs to be asked now.
    fn request_step<Request, Addition, Special>(
        self,
    ) -> Option<GangStep<Request, Addition, Special>> {
        Self {
            are_left: false,
            ..self
        }
        .step()
    }

    /// Returns the step that makes the pods leave. None: all have left.
    fn step<Request, Addition, Special>(self) -> Option<GangStep<Request, Addition, Special>> {
        if !self.deleted.is_empty() {
            Some(GangStep::Delete(self.deleted))
        } else if !self.evicted.is_empty() {
            Some(GangStep::Evict(self.evicted))
        } else {
            self.are_left.then_some(GangStep::AwaitPods)
        }
    }
}

impl<M: Members> ObservedGang<'_, M> {
    /// Decides the next step.
    #[must_use]
    pub fn next_step(&self) -> StepOf<M> {
        let phase = self.journal.phase.unwrap_or_default();
        if let Some(step) = M::remove_strays(self) {
            return step;
        }
        match phase {
            PodGroupPhase::Pending => M::pending_step(self),
            PodGroupPhase::Provisioning => self.provisioning_step(),
            PodGroupPhase::Nominated => self.nominated_step(),
            PodGroupPhase::Committing => self.committing_step(),
            PodGroupPhase::Placed => self.placed_step(),
            PodGroupPhase::Unwinding => self.unwinding_step(),
            PodGroupPhase::Finished => M::finished_step(self),
        }
    }

    fn provisioning_step(&self) -> StepOf<M> {
        let provisioning = self.journal.provisioning.as_ref();
        match self.author {
            _ if !provisioning.is_some_and(|nodes| M::wants_nodes(self, nodes)) => {
                GangStep::EndProvisioning
            }
            Some(PlanAuthor::ThisLeader) => M::pending_step(self),
            Some(PlanAuthor::Predecessor) => GangStep::TakeOver,
            Some(PlanAuthor::Stale) => GangStep::EndProvisioning,
            None => GangStep::StandBy,
        }
    }

    fn nominated_step(&self) -> StepOf<M> {
        let plan = self.journal.plan.as_ref();
        match self.author {
            _ if !plan.is_some_and(|plan| M::wants_plan(self, plan)) => GangStep::CancelNomination,
            Some(PlanAuthor::ThisLeader) => GangStep::RemoveVictims,
            Some(PlanAuthor::Predecessor) => GangStep::TakeOver,
            Some(PlanAuthor::Stale) => GangStep::CancelNomination,
            None => GangStep::StandBy,
        }
    }

    fn committing_step(&self) -> StepOf<M> {
        let roll_back = |message: &str| GangStep::RollBack {
            reason: Reason::Restarting,
            message: message.to_owned(),
            failed: false,
        };
        let Some(plan) = &self.journal.plan else {
            return roll_back("the journal names no plan");
        };
        if let Some(step) = M::abandon_plan(self, plan).or_else(|| self.make_room()) {
            return step;
        }
        let is_late = plan.deadline.as_ref().is_none_or(|d| d.0 <= self.now);
        // If the gang is whole, only the write that closes the plan is late.
        if is_late && !M::is_whole(self, plan) {
            let (reason, message) = M::expiry(self);
            return GangStep::RollBack {
                reason,
                message,
                failed: true,
            };
        }
        match self.author {
            Some(PlanAuthor::ThisLeader) => GangStep::Commit,
            Some(PlanAuthor::Predecessor) => GangStep::TakeOver,
            Some(PlanAuthor::Stale) => {
                roll_back("the plan was written by a process that no longer leads")
            }
            None => GangStep::StandBy,
        }
    }

    fn placed_step(&self) -> StepOf<M> {
        let no_plan = Plan::default();
        let plan = self.journal.plan.as_ref().unwrap_or(&no_plan);
        M::maintain(self, plan)
            .or_else(|| self.make_room())
            .unwrap_or_else(|| GangStep::KeepPlace(M::additions(self, plan)))
    }

    fn make_room(&self) -> Option<StepOf<M>> {
        Some(GangStep::RollBack {
            reason: Reason::Preempted,
            message: self.preemption_message?.to_owned(),
            failed: false,
        })
    }

    fn unwinding_step(&self) -> StepOf<M> {
        let until = self.journal.evict_until.as_ref();
        let patient =
            journal::is_preempted(self.journal) && until.is_some_and(|until| until.0 > self.now);
        M::departures(self, patient)
            .step()
            .unwrap_or_else(|| M::unwound_step(self))
    }
}

#[cfg(test)]
mod tests;
