//! External pods in a cluster where users can write the annotations that Trellis sets.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use trellis_api::PodGroup;
use trellis_cache::policy::guards::fixtures::put_in_force;
use trellis_gang::observed::SlimAdmission;

use super::*;

impl ContextFixture {
    /// Adds an external pod on a node, whose annotation claims that it counts in queue "other".
    fn placed_pod(&self, name: &str) {
        let pod: SlimPod = decoded(json!({
            "metadata": {"name": name, "namespace": "a", "uid": name,
                "labels": {"trellis.dev/pod-group": "g"},
                "annotations": {"trellis.dev/placed-in": "other", "trellis.dev/plan": "p"}},
            "spec": {"schedulerName": "trellis", "nodeName": "n"},
        }));
        self.sink.apply(Key::new("a", name), pod);
    }

    fn counts_in_queue(&self, name: &str) -> bool {
        let pod = self
            .context
            .cache
            .external_pods
            .get(&Key::new("a", name))
            .unwrap();
        pod.charged_queue() == Some("other")
    }
}

#[tokio::test]
async fn external_pod_counts_in_no_queue_while_the_guard_is_missing() {
    let case = ContextFixture::new();
    put_in_force(&case.context.cache.guards);
    case.placed_pod("before");
    case.sync();
    case.placed_pod("guarded");
    let binding = Key::new("", "trellis-reserved-keys");
    Sink::<SlimAdmission<ValidatingAdmissionPolicyBinding>>::delete(&*case.sink, &binding, "a");
    case.placed_pod("forged");
    case.placed_pod("guarded");
    assert!(case.counts_in_queue("before") && case.counts_in_queue("guarded"));
    assert!(!case.counts_in_queue("forged"));
    // A pod that was written without the guard stays untrusted after the guard is back.
    put_in_force(&case.context.cache.guards);
    case.placed_pod("forged");
    assert!(!case.counts_in_queue("forged"));
    case.placed_pod("later");
    assert!(case.counts_in_queue("later"));
}

#[tokio::test]
async fn external_pod_named_by_a_plan_counts_without_the_guard() {
    let case = ContextFixture::new();
    let pods = json!([{"name": "planned", "uid": "planned"}]);
    let group: PodGroup = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "a", "uid": "g", "resourceVersion": "1"},
        "spec": {"minMember": 1},
        "status": {"phase": "Placed", "plan": {"hash": "p", "attempt": 1, "generation": 1,
            "queue": "other", "compiled": "",
            "assignments": [{"group": "g0", "node": "n", "count": 1, "pods": pods}]}},
    }));
    case.sink.apply(Key::new("a", "g"), group);
    for name in ["planned", "forged"] {
        case.placed_pod(name);
    }
    case.sync();
    assert!(case.counts_in_queue("planned"));
    assert!(!case.counts_in_queue("forged"));
}
