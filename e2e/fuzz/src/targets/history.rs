//! Objects of the cluster that users write: labels, annotations, statuses of pods and nodes.

use kube::api::ObjectMeta;
use serde_json::{Value, json};
use trellis_api::names;
use trellis_cache::policy::stamped_requester;
use trellis_gang::engine::to_engine_node;
use trellis_gang::observed::{ExternalPod, PodView, SlimNode, SlimPod, UnhealthyRules};
use trellis_gang::requirements::resource_request::{pod_limits, pod_request};
use trellis_scheduler::Resources;

use crate::Target;

/// The target. No annotation, label or status of a pod or a node makes Trellis panic, count a
/// negative amount, or name a requester that the stamp does not name.
pub const TARGET: Target = Target {
    check,
    words: &[
        names::JOB,
        names::JOB_UID,
        names::GROUP,
        names::INDEX,
        names::ATTEMPT,
        names::PLAN,
        names::ROUND,
        names::EPOCH,
        names::PLACED_IN,
        names::PLACED_WITH,
        names::FLAVORS,
        names::POD_GROUP,
        names::REQUESTED_BY,
        names::CHECKPOINT_ANNOTATION,
        "annotations",
        "labels",
        "metadata",
        "status",
        "spec",
        "allocatable",
        "conditions",
        "requests",
        "limits",
        "allocatedResources",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "{\\\"user\\\": \\\"ada\\\"}",
        "[\\\"ada\\\", []]",
        "-1Gi",
        "9e99",
        "2026-01-01T00:00:00Z",
    ],
    inputs_per_case: 128,
};

fn check(input: &[u8]) {
    if let Ok(meta) = serde_json::from_slice::<WithMeta>(input) {
        check_requester(&meta.metadata);
    }
    if let Ok(pod) = serde_json::from_slice::<SlimPod>(input) {
        check_pod(&pod);
    }
    if let Ok(node) = serde_json::from_slice::<SlimNode>(input) {
        check_amounts(&to_engine_node(&node, &UnhealthyRules::default()).allocatable);
    }
}

#[derive(serde::Deserialize)]
struct WithMeta {
    metadata: ObjectMeta,
}

/// A requester is the user that the stamp names in a JSON object.
fn check_requester(meta: &ObjectMeta) {
    let Some(requester) = stamped_requester(meta) else {
        return;
    };
    let stamp = meta
        .annotations
        .as_ref()
        .and_then(|all| all.get(names::REQUESTED_BY));
    let stamp: Value = serde_json::from_str(stamp.expect("the stamp")).expect("a stamp is JSON");
    assert!(stamp.is_object(), "{stamp} names a requester");
    assert_eq!(stamp["user"], json!(requester.user));
    assert!(!requester.user.is_empty());
    let groups = stamp["groups"].as_array().into_iter().flatten();
    for group in groups {
        assert!(
            requester
                .groups
                .contains(group.as_str().expect("a group is text"))
        );
    }
}

fn check_pod(pod: &SlimPod) {
    check_amounts(&pod_request(pod));
    check_amounts(&pod_limits(pod));
    let of_job = PodView::from_pod(pod);
    let external = ExternalPod::from_pod(pod);
    assert!(
        of_job.is_none() || external.is_none(),
        "a pod has one owner"
    );
    if let Some(external) = external {
        check_amounts(&external.request);
        assert!(external.grace <= 3600, "a grace period is at most an hour");
        assert!(external.charged_queue().is_none() || external.is_bound());
    }
}

fn check_amounts(resources: &Resources) {
    for (resource, amount) in resources.iter() {
        assert!(amount >= 0, "{amount} of {}", resource.as_str());
    }
}
