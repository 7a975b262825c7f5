//! The pods that name one PodGroup: the pods that can be placed, and the pods of the gang's place.

use trellis_api::pod_group::{PodGroupPhase, PodGroupStatus};

use crate::observed::{ExternalPod, ExternalPods};

/// Most pods of one gang. The plan names each pod and must fit into one object.
pub(crate) const MAX_MEMBERS: usize = 4096;

/// Returns the pods that can be placed, in the order in which they fill the gang: by index, then by
/// age.
pub(crate) fn ready_pods(pods: &ExternalPods) -> Vec<String> {
    let is_ready = |pod: &ExternalPod| pod.is_waiting() && pod.scheduling_gates().next().is_none();
    let ready = pods.iter().filter(|(_, pod)| is_ready(pod));
    let mut ready: Vec<_> = ready
        .map(|(name, pod)| (pod.index.unwrap_or(u32::MAX), pod.created, name))
        .collect();
    ready.sort();
    ready.into_iter().map(|(.., name)| name.clone()).collect()
}

/// Returns true if the pod is part of the gang's place: the gang's plan bound the pod, or the pod
/// joined the gang later.
///
/// Any other pod of the PodGroup that Trellis has bound counts alone, in the queue in which Trellis
/// bound it. So a PodGroup that a user creates or changes later moves no pod to another queue.
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

/// Returns true if all remaining pods of a placed gang are being deleted. Pods that are created
/// meanwhile form the next gang.
///
/// `is_lost` returns true for a node without a kubelet that could stop its pods. Such pods may stay
/// for ever, so they do not count.
pub fn is_stopping(
    journal: &PodGroupStatus,
    pods: &ExternalPods,
    is_lost: impl Fn(&str) -> bool,
) -> bool {
    let placed_pods = pods.values().filter(|pod| is_in_place(journal, pod));
    let stoppable = placed_pods.filter(|pod| !pod.node.as_deref().is_some_and(&is_lost));
    let mut stoppable = stoppable.peekable();
    let is_placed = journal.phase == Some(PodGroupPhase::Placed);
    is_placed && stoppable.peek().is_some() && stoppable.all(|pod| pod.deleting)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use trellis_api::pod_group::Plan;

    use super::*;
    use crate::external::fixtures::{bound_by_plan, bound_on, pod};

    #[test]
    fn ready_pods_are_ordered_by_index_then_by_age() {
        let created = |second: u32| format!("2026-01-01T00:00:0{second}Z");
        let indexed = |index: &str, second: u32| {
            json!({"/metadata/labels": {"batch.kubernetes.io/job-completion-index": index},
                "/metadata/creationTimestamp": created(second)})
        };
        let pods = [
            ("a", indexed("10", 0)),
            ("b", indexed("9", 1)),
            ("c", json!({"/metadata/creationTimestamp": created(3)})),
            ("d", json!({"/metadata/creationTimestamp": created(2)})),
        ];
        let pods = pods.map(|(name, fields)| (name.to_owned(), Arc::new(pod(name, fields))));
        assert_eq!(ready_pods(&pods.into()), ["b", "a", "d", "c"]);
    }

    /// Returns the journal of plan `p` in queue `q`.
    fn journal(phase: PodGroupPhase) -> PodGroupStatus {
        PodGroupStatus {
            phase: Some(phase),
            plan: Some(Plan {
                hash: "p".to_owned(),
                queue: Some("q".to_owned()),
                ..Plan::default()
            }),
            ..PodGroupStatus::default()
        }
    }

    #[test]
    fn pod_is_in_the_place_only_when_bound_in_its_queue() {
        let bound_by_later_plan = pod("a", bound_by_plan("n", "another", "q"));
        let placed = journal(PodGroupPhase::Placed);
        assert!(is_in_place(&placed, &bound_by_later_plan));
        let in_other_queue = pod("a", bound_by_plan("n", "p", "r"));
        assert!(!is_in_place(&placed, &in_other_queue));
        let committing = journal(PodGroupPhase::Committing);
        assert!(is_in_place(&committing, &pod("a", bound_on("n"))));
        assert!(!is_in_place(&committing, &bound_by_later_plan));
        let pending = journal(PodGroupPhase::Pending);
        assert!(!is_in_place(&pending, &pod("a", bound_on("n"))));
    }

    #[test]
    fn pod_that_trellis_has_not_bound_counts_in_no_queue() {
        let bound_by_user = pod(
            "a",
            json!({"/spec/nodeName": "n", "/metadata/labels": {"trellis.dev/queue": "q"}}),
        );
        assert_eq!(bound_by_user.charged_queue(), None);
        assert!(!is_in_place(
            &journal(PodGroupPhase::Placed),
            &bound_by_user
        ));
        let waiting: Value = json!({"/metadata/annotations": {"trellis.dev/placed-in": "q"}});
        assert_eq!(pod("a", waiting).charged_queue(), None);
    }
}
