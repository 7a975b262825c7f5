//! What is to be done about a pod alone: one of no PodGroup, one that came after its gang had its
//! place, or one that holds a place and whose gang has none. It has no journal: binding one pod is
//! one write, which is carried out or is not.

use tokio::time::Instant;

use crate::gang::deletions::Deletions;
use crate::gang::keeper::Doomed;
use crate::gang::observed::ExternalPod;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It holds nothing and asks for nothing: it has ended, goes, has gates, or is its gang's.
    Forget,
    /// Let the engine find a place for it.
    Enqueue,
    /// The place is the pod's.
    Hold,
    /// Evict it: a PodDisruptionBudget may say not yet.
    Evict(Doomed),
    /// Delete it: budgets have had their time.
    Delete(Doomed),
}

/// What is seen of one pod.
#[derive(Clone, Copy, Debug)]
pub struct Single<'a> {
    /// Its name.
    pub name: &'a str,
    /// The pod. None: it is not there.
    pub pod: Option<&'a ExternalPod>,
    /// The gang that it came after has its place. None: it is in no PodGroup.
    pub gang_holds: Option<bool>,
    /// What it holds is part of that gang's place.
    pub is_of_place: bool,
    /// It is to make room. True while budgets are asked whether it may.
    pub told: Option<bool>,
    /// Deletes that have been asked for.
    pub deletions: &'a Deletions,
    /// The time by a clock that is never set.
    pub clock: Instant,
}

impl Single<'_> {
    /// What is to be done next.
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
