//! What is to be done about a pod alone: one of no PodGroup, or one that came after its gang had its
//! place. It has no journal: binding one pod is one write, which is carried out or is not.

use tokio::time::Instant;

use crate::scheduling::deletions::Deletions;
use crate::scheduling::keeper::Doomed;
use crate::watch::GuestPod;

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
}

/// What is seen of one pod.
#[derive(Clone, Copy, Debug)]
pub struct Single<'a> {
    /// Its name.
    pub name: &'a str,
    /// The pod. None: it is not there.
    pub pod: Option<&'a GuestPod>,
    /// The gang that it came after has its place. None: it is in no PodGroup.
    pub gang_holds: Option<bool>,
    /// It is to make room.
    pub told: bool,
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
        match self.gang_holds {
            // The gang's own, or it is one by now.
            Some(_) if pod.node.is_some() => return Step::Forget,
            Some(false) => return Step::Forget,
            Some(true) | None => {}
        }
        if pod.is_bound() {
            let due = !pod.deleting && self.deletions.is_due(&pod.uid, false, self.clock);
            return match self.told && due {
                true => Step::Evict(Doomed {
                    name: self.name.to_owned(),
                    uid: pod.uid.clone(),
                    force: false,
                    grace: None,
                }),
                false => Step::Hold,
            };
        }
        match pod.waits() && pod.gates().next().is_none() {
            true => Step::Enqueue,
            false => Step::Forget,
        }
    }
}
