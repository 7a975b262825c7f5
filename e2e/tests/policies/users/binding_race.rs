//! The operator binds an external pod only in the version that policies have judged, and not after
//! a change by its user.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use trellis_e2e::cluster::{NodeTemplate, SCOPE_LABEL};
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::proxy::{ProxyFault, Verb};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::{eventually, wait_for};

use crate::fixtures::{apply_policy, cluster_policy_for, wait_until_active};
use crate::operator_program;
use crate::users::{self, user_client};

const ALLOWED_IMAGE: &str = "registry.example/allowed:1";
const FORBIDDEN_IMAGE: &str = "registry.example/forbidden:1";
const FORBID_POLICY: &str = "@id(\"no\") forbid(principal, action == Trellis::Action::\"UseImage\", \
                      resource) when { resource.repository == \"forbidden\" };";

/// Returns true if the condition reports a denial by policies.
fn is_denial(condition: &PodCondition) -> bool {
    let message = condition.message.as_deref();
    message.is_some_and(|message| message.starts_with("PolicyDenied: "))
}

fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// The user changes the image while the operator's bind request is in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn external_pod_changed_during_binding_is_decided_again() {
    let control_plane = operator::start_control_plane().await.unwrap();
    // The lease is long, so the operator keeps it while the proxy holds requests.
    let launch = LaunchOptions::with_name("operator").lease_seconds(60);
    let (_operator, proxy) =
        Operator::start_behind_new_proxy(&control_plane, operator_program(), &launch)
            .await
            .unwrap();
    let site = TestSite::new(&control_plane, "swapped", NodeTemplate::new(1).gpus(8)).await;
    users::grant_user_rights(&control_plane).await;
    apply_policy(
        &control_plane,
        &cluster_policy_for(&site, FORBID_POLICY, json!({})),
    )
    .await;
    wait_until_active(&control_plane, site.name()).await;
    wait_until_active(&control_plane, "starter").await;
    let user = user_client(&control_plane, "eve", &[]);
    let pods: Api<Pod> = Api::namespaced(user, site.name());
    let pod = json!({"metadata": {"name": "pod"}, "spec": {
        "schedulerName": "trellis", "nodeSelector": {SCOPE_LABEL: site.name()},
        "containers": [{"name": "main", "image": ALLOWED_IMAGE, "resources": {
            "requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "1"}}}],
    }});
    let pod: Pod = serde_json::from_value(pod).unwrap();

    let is_held = Arc::new(AtomicBool::new(false));
    let flag = is_held.clone();
    proxy.on_request(move |request| {
        if request.verb != Verb::Create || request.resource != "pods/binding" {
            return ProxyFault::Pass;
        }
        flag.store(true, Ordering::SeqCst);
        ProxyFault::Hold
    });
    pods.create(&PostParams::default(), &pod).await.unwrap();
    eventually(SOON, || async {
        anyhow::ensure!(
            is_held.load(Ordering::SeqCst),
            "the operator does not bind the pod"
        );
        Ok(())
    })
    .await
    .unwrap();
    let use_image = async |image: &str| {
        let containers = json!([{"name": "main", "image": image}]);
        let patch = Patch::Strategic(json!({"spec": {"containers": containers}}));
        let params = PatchParams::default();
        pods.patch("pod", &params, &patch).await.unwrap();
    };
    use_image(FORBIDDEN_IMAGE).await;
    proxy.remove_faults();

    let denied_pod = wait_for(&pods, "pod", SOON, |pod: &Pod| {
        let status = pod.status.as_ref();
        let mut conditions = status
            .into_iter()
            .flat_map(|s| s.conditions.iter().flatten());
        let is_denied = conditions.any(is_denial);
        is_denied || node_name(pod).is_some()
    });
    let denied_pod = denied_pod.await.unwrap();
    assert_eq!(
        node_name(&denied_pod),
        None,
        "the pod runs a forbidden image"
    );
    use_image(ALLOWED_IMAGE).await;
    let bound = wait_for(&pods, "pod", SOON, |pod: &Pod| node_name(pod).is_some());
    bound.await.unwrap();
}
