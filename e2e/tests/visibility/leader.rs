//! The Service selects the pod of the leader.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use trellis_e2e::control_plane::{ControlPlane, ProcessSignal, free_port};
use trellis_e2e::operator::{self, NAMESPACE, Operator, SERVICE_ACCOUNT, release_lease};
use trellis_e2e::visibility;
use trellis_e2e::wait::eventually;

use crate::fixtures::operator_program;

const SOON: Duration = Duration::from_secs(60);

async fn start_operator(control_plane: &ControlPlane, pod: &str) -> Result<Operator> {
    let kubeconfig = operator::kubeconfig(control_plane, pod).await?;
    let launch = visibility::launch_options(pod, free_port()?).pod(pod);
    Operator::launch_with_options(control_plane, operator_program(), &kubeconfig, &launch)
}

async fn wait_for_leader_label(pods: &Api<Pod>, expected: &[&str]) -> Result<()> {
    eventually(SOON, || async {
        let labelled = ListParams::default().labels("trellis.dev/role=leader");
        let labelled = pods.list(&labelled).await?;
        let names: Vec<String> = labelled.iter().map(|pod| pod.name_any()).collect();
        ensure!(names == expected, "{names:?} are labelled");
        Ok(())
    })
    .await
}

async fn add_leader_label(pods: &Api<Pod>, name: &str) {
    let patch = json!({"metadata": {"labels": {"trellis.dev/role": "leader"}}});
    let params = PatchParams::default();
    pods.patch(name, &params, &Patch::Merge(&patch))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_label_follows_the_lease_however_the_leader_ends() {
    let control_plane = operator::start_control_plane().await.unwrap();
    visibility::install(&control_plane, free_port().unwrap())
        .await
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(control_plane.client(), NAMESPACE);
    for name in ["one", "two", "three"] {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "trellis-operator"}},
            "spec": {
                "serviceAccountName": SERVICE_ACCOUNT,
                "containers": [{"name": "operator", "image": "registry.example/trellis"}],
            },
        });
        let pod = serde_json::from_value(pod).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    let mut first_operator = start_operator(&control_plane, "one").await.unwrap();
    wait_for_leader_label(&pods, &["one"]).await.unwrap();
    // A killed leader cannot remove its label, so the next leader removes it.
    first_operator.kill().unwrap();
    drop(first_operator);
    release_lease(&control_plane).await.unwrap();
    let mut two = start_operator(&control_plane, "two").await.unwrap();
    wait_for_leader_label(&pods, &["two"]).await.unwrap();
    // A terminated leader removes its label itself.
    two.signal(ProcessSignal::Terminate).unwrap();
    wait_for_leader_label(&pods, &[]).await.unwrap();
    // An operator that restarts in the pod of a dead leader does not keep the leader's label.
    for pod in ["one", "three"] {
        add_leader_label(&pods, pod).await;
    }
    let mut three = start_operator(&control_plane, "three").await.unwrap();
    wait_for_leader_label(&pods, &["three"]).await.unwrap();
    // The operator removes the label from its own pod before it waits for the lease. The leader,
    // which checks the label every ten seconds, is dead, so it cannot have removed it.
    three.kill().unwrap();
    add_leader_label(&pods, "one").await;
    wait_for_leader_label(&pods, &["one", "three"])
        .await
        .unwrap();
    let _waits = start_operator(&control_plane, "one").await.unwrap();
    wait_for_leader_label(&pods, &["three"]).await.unwrap();
}
