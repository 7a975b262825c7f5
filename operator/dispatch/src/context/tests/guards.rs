//! External pods where users can write what says that Trellis has placed them.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use trellis_api::PodGroup;
use trellis_cache::policy::guards::fixtures::put_in_force;
use trellis_gang::observed::SlimAdmission;

use super::*;

impl Case {
    /// An external pod on a node that says it counts in queue "other".
    fn placed_pod(&self, name: &str) {
        let pod: SlimPod = decoded(json!({
            "metadata": {"name": name, "namespace": "a", "uid": name,
                "labels": {"trellis.dev/pod-group": "g"},
                "annotations": {"trellis.dev/placed-in": "other", "trellis.dev/plan": "p"}},
            "spec": {"schedulerName": "trellis", "nodeName": "n"},
        }));
        self.watched.apply(Key::new("a", name), pod);
    }

    fn counts(&self, name: &str) -> bool {
        let pod = self
            .context
            .cache
            .external_pods
            .get(&Key::new("a", name))
            .unwrap();
        pod.counts_in() == Some("other")
    }
}

#[tokio::test]
async fn external_pod_that_appears_while_the_guard_is_missing_counts_in_no_queue() {
    let case = Case::new();
    put_in_force(&case.context.cache.guards);
    case.placed_pod("before");
    case.sync();
    case.placed_pod("guarded");
    let binding = Key::new("", "trellis-reserved-keys");
    Sink::<SlimAdmission<ValidatingAdmissionPolicyBinding>>::delete(&*case.watched, &binding, "a");
    case.placed_pod("forged");
    case.placed_pod("guarded");
    assert!(case.counts("before") && case.counts("guarded"));
    assert!(!case.counts("forged"));
    // Pods written while the guard was off stay untrusted once it is on again.
    put_in_force(&case.context.cache.guards);
    case.placed_pod("forged");
    assert!(!case.counts("forged"));
    case.placed_pod("later");
    assert!(case.counts("later"));
}

#[tokio::test]
async fn external_pod_that_a_plan_names_counts_without_the_guard() {
    let case = Case::new();
    let pods = json!([{"name": "planned", "uid": "planned"}]);
    let group: PodGroup = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "a", "uid": "g", "resourceVersion": "1"},
        "spec": {"minMember": 1},
        "status": {"phase": "Placed", "plan": {"hash": "p", "attempt": 1, "generation": 1,
            "queue": "other", "compiled": "",
            "assignments": [{"group": "g0", "node": "n", "count": 1, "pods": pods}]}},
    }));
    case.watched.apply(Key::new("a", "g"), group);
    for name in ["planned", "forged"] {
        case.placed_pod(name);
    }
    case.sync();
    assert!(case.counts("planned"));
    assert!(!case.counts("forged"));
}
