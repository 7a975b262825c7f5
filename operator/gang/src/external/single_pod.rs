//! Decides the next step for a single external pod: a pod without a PodGroup, a pod that joins a
//! placed gang, or a pod that holds a node while its gang has no place. A single pod needs no
//! journal, because one write binds it.

use tokio::time::Instant;

use crate::gang_step::PodDeletion;
use crate::gang_step::deletions::Deletions;
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
            let is_due = pod.can_be_deleted() && self.deletions.is_due(&pod.uid, false, self.clock);
            let deletion = PodDeletion::from_external_pod(self.name, pod);
            return match self.eviction_delayable {
                _ if !is_due => SinglePodStep::Hold,
                _ if pod.has_overlong_grace => SinglePodStep::Delete(deletion),
                Some(true) => SinglePodStep::Evict(deletion),
                Some(false) => SinglePodStep::Delete(deletion),
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::external::fixtures::{bound_on, pod};

    /// Returns the next step of a pod that is in no gang's place.
    fn next_step(
        pod: Option<&ExternalPod>,
        gang_is_placed: Option<bool>,
        eviction_delayable: Option<bool>,
    ) -> SinglePodStep {
        SinglePod {
            name: "a",
            pod,
            gang_is_placed,
            is_in_gang_place: false,
            eviction_delayable,
            deletions: &Deletions::default(),
            clock: Instant::now(),
        }
        .next_step()
    }

    #[test]
    fn waiting_pod_is_queued_unless_its_gang_has_no_place() {
        let waiting = pod("a", json!({}));
        for (gang_is_placed, step) in [
            (None, SinglePodStep::Enqueue),
            (Some(true), SinglePodStep::Enqueue),
            (Some(false), SinglePodStep::Forget),
        ] {
            assert_eq!(next_step(Some(&waiting), gang_is_placed, None), step);
        }
        let gated = pod("a", json!({"/spec/schedulingGates": [{"name": "x"}]}));
        assert_eq!(next_step(Some(&gated), None, None), SinglePodStep::Forget);
        assert_eq!(next_step(None, None, None), SinglePodStep::Forget);
    }

    #[test]
    fn bound_pod_holds_its_place_unless_it_is_in_the_gang_place() {
        let bound = pod("a", bound_on("n"));
        for gang_is_placed in [None, Some(true), Some(false)] {
            let step = next_step(Some(&bound), gang_is_placed, None);
            assert_eq!(step, SinglePodStep::Hold);
        }
        for gang_is_placed in [true, false] {
            let in_gang_place = SinglePod {
                name: "a",
                pod: Some(&bound),
                gang_is_placed: Some(gang_is_placed),
                is_in_gang_place: true,
                eviction_delayable: None,
                deletions: &Deletions::default(),
                clock: Instant::now(),
            };
            assert_eq!(in_gang_place.next_step(), SinglePodStep::Forget);
        }
    }

    #[test]
    fn preempted_pod_is_evicted_and_deleted_after_the_budget_time() {
        let bound = pod("a", bound_on("n"));
        let step = next_step(Some(&bound), None, Some(true));
        assert!(matches!(step, SinglePodStep::Evict(_)), "{step:?}");
        let step = next_step(Some(&bound), None, Some(false));
        assert!(matches!(step, SinglePodStep::Delete(_)), "{step:?}");
        let bound_by_user = pod("a", json!({"/spec/nodeName": "n"}));
        let step = next_step(Some(&bound_by_user), None, Some(true));
        assert_eq!(step, SinglePodStep::Forget);
    }

    /// Returns the fields of a running pod with this termination grace period.
    fn running(grace_seconds: i64) -> Value {
        let mut pod = bound_on("n");
        pod["/status/phase"] = json!("Running");
        pod["/spec/terminationGracePeriodSeconds"] = json!(grace_seconds);
        pod
    }

    #[test]
    fn eviction_and_deletion_request_an_hour_of_grace_at_most() {
        let running = pod("a", running(2_147_483_647));
        for eviction_delayable in [true, false] {
            let step = next_step(Some(&running), None, Some(eviction_delayable));
            let (SinglePodStep::Evict(deletion) | SinglePodStep::Delete(deletion)) = step else {
                panic!("{step:?}");
            };
            assert_eq!(deletion.grace, Some(3_600));
        }
    }

    #[test]
    fn deletion_with_a_longer_grace_period_is_repeated() {
        let deleted_with_grace = |seconds: i64| {
            let mut fields = running(30);
            fields["/metadata/deletionTimestamp"] = json!("2090-01-01T00:00:00Z");
            fields["/metadata/deletionGracePeriodSeconds"] = json!(seconds);
            next_step(Some(&pod("a", fields)), None, None)
        };
        let step = deleted_with_grace(86_400);
        assert!(matches!(step, SinglePodStep::Delete(_)), "{step:?}");
        assert_eq!(deleted_with_grace(3_600), SinglePodStep::Hold);
    }
}
