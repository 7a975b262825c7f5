//! Decides the next step for a pod alone: it has no PodGroup, it joins a placed gang, or it holds a
//! place while its gang has none. It needs no journal: binding one pod is one write, which takes
//! effect or not.

use tokio::time::Instant;

use crate::deletions::Deletions;
use crate::keeper::Doomed;
use crate::observed::ExternalPod;

/// The next step for a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Forget the pod: it has ended, is being deleted, has scheduling gates, or its gang is
    /// responsible for it.
    Forget,
    /// Let the engine find a place for the pod.
    Enqueue,
    /// Keep the pod's place.
    Hold,
    /// Evict the pod: a PodDisruptionBudget may delay that.
    Evict(Doomed),
    /// Delete the pod: budgets may not delay it any longer.
    Delete(Doomed),
}

/// The observed state of one pod.
#[derive(Clone, Copy, Debug)]
pub struct Single<'a> {
    /// The pod's name.
    pub name: &'a str,
    /// The pod. None if it does not exist.
    pub pod: Option<&'a ExternalPod>,
    /// True if the gang that the pod joins is placed, None if the pod has no PodGroup.
    pub gang_holds: Option<bool>,
    /// True if the pod is part of that gang's place.
    pub is_of_place: bool,
    /// Set if the pod must make room: true while budgets may delay that.
    pub told: Option<bool>,
    /// Deletes that were requested.
    pub deletions: &'a Deletions,
    /// The monotonic time.
    pub clock: Instant,
}

impl Single<'_> {
    /// Decides the next step.
    #[must_use]
    pub fn next(&self) -> Step {
        let Some(pod) = self.pod else {
            return Step::Forget;
        };
        if pod.counts_in().is_some() && !self.is_of_place {
            let due = pod.can_be_deleted() && self.deletions.is_due(&pod.uid, false, self.clock);
            let doomed = Doomed::external(self.name, pod);
            return match self.told {
                _ if !due => Step::Hold,
                _ if pod.stops_too_late => Step::Delete(doomed),
                Some(true) => Step::Evict(doomed),
                Some(false) => Step::Delete(doomed),
                None => Step::Hold,
            };
        }
        let ready = pod.waits() && pod.gates().next().is_none();
        match ready && self.gang_holds != Some(false) {
            true => Step::Enqueue,
            false => Step::Forget,
        }
    }
}
