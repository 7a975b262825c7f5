//! Decides the next step for a pod alone: it has no PodGroup, it joins a placed gang, or it holds a
//! place while its gang has none. It needs no journal: one write binds a pod, and the write either
//! takes effect or fails.

use tokio::time::Instant;

use crate::deletions::Deletions;
use crate::gang_step::PodDeletion;
use crate::observed::ExternalPod;

/// The next step for a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum SinglePodStep {
    /// Forget the pod: it has ended, is being deleted, has scheduling gates, or its gang is
    /// responsible for it.
    Forget,
    /// Let the engine find a place for the pod.
    Enqueue,
    /// Keep the pod's place.
    Hold,
    /// Evict the pod: a PodDisruptionBudget may delay that.
    Evict(PodDeletion),
    /// Delete the pod: budgets may not delay it any longer.
    Delete(PodDeletion),
}

/// The observed state of one pod.
#[derive(Clone, Copy, Debug)]
pub struct SinglePod<'a> {
    /// The pod's name.
    pub name: &'a str,
    /// The pod. None if it does not exist.
    pub pod: Option<&'a ExternalPod>,
    /// True if the gang that the pod joins is placed, None if the pod has no PodGroup.
    pub gang_is_placed: Option<bool>,
    /// True if the pod is part of that gang's place.
    pub is_in_gang_place: bool,
    /// Set if the pod must make room: true while budgets may delay that.
    pub eviction_delayable: Option<bool>,
    /// Deletes that were requested.
    pub deletions: &'a Deletions,
    /// The monotonic time.
    pub clock: Instant,
}

impl SinglePod<'_> {
    /// Decides the next step.
    #[must_use]
    pub fn next_step(&self) -> SinglePodStep {
        let Some(pod) = self.pod else {
            return SinglePodStep::Forget;
        };
        if pod.charged_queue().is_some() && !self.is_in_gang_place {
            let due = pod.can_be_deleted() && self.deletions.is_due(&pod.uid, false, self.clock);
            let doomed = PodDeletion::from_external_pod(self.name, pod);
            return match self.eviction_delayable {
                _ if !due => SinglePodStep::Hold,
                _ if pod.has_overlong_grace => SinglePodStep::Delete(doomed),
                Some(true) => SinglePodStep::Evict(doomed),
                Some(false) => SinglePodStep::Delete(doomed),
                None => SinglePodStep::Hold,
            };
        }
        let ready = pod.is_waiting() && pod.scheduling_gates().next().is_none();
        match ready && self.gang_is_placed != Some(false) {
            true => SinglePodStep::Enqueue,
            false => SinglePodStep::Forget,
        }
    }
}
