//! The Service selects the pod of the leader.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use trellis_e2e::control_plane::{ControlPlane, Signal, free_port};
use trellis_e2e::operator::{self, ACCOUNT, NAMESPACE, Operator, give_lease_back};
use trellis_e2e::visibility;
use trellis_e2e::wait::eventually;

use crate::scene::program;

const SOON: Duration = Duration::from_secs(60);

async fn start(control_plane: &ControlPlane, pod: &str) -> Result<Operator> {
    let account = control_plane.service_account_kubeconfig(NAMESPACE, ACCOUNT);
    let kubeconfig = account.await?;
    let launch = visibility::launch(pod, free_port()?).argument(&format!("--pod={pod}"));
    Operator::launch(control_plane, program(), &kubeconfig, &launch)
}

async fn leads(pods: &Api<Pod>, expected: &[&str]) -> Result<()> {
    eventually(SOON, || async {
        let labelled = ListParams::default().labels("trellis.dev/role=leader");
        let labelled = pods.list(&labelled).await?;
        let names: Vec<String> = labelled.iter().map(|pod| pod.name_any()).collect();
        ensure!(names == expected, "{names:?} are labelled");
        Ok(())
    })
    .await
}

async fn label(pods: &Api<Pod>, name: &str) {
    let patch = json!({"metadata": {"labels": {"trellis.dev/role": "leader"}}});
    let params = PatchParams::default();
    pods.patch(name, &params, &Patch::Merge(&patch))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_label_goes_with_the_lease_however_a_leader_ends() {
    let control_plane = operator::control_plane().await.unwrap();
    visibility::install(&control_plane, free_port().unwrap())
        .await
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(control_plane.client(), NAMESPACE);
    for name in ["one", "two", "three"] {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "trellis-operator"}},
            "spec": {"containers": [{"name": "operator", "image": "registry.example/trellis"}]},
        });
        let pod = serde_json::from_value(pod).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    let mut one = start(&control_plane, "one").await.unwrap();
    leads(&pods, &["one"]).await.unwrap();
    // Killed, it cannot take its label away: the next does.
    one.kill().unwrap();
    drop(one);
    give_lease_back(&control_plane).await.unwrap();
    let mut two = start(&control_plane, "two").await.unwrap();
    leads(&pods, &["two"]).await.unwrap();
    // A leader that is terminated removes its label itself.
    two.signal(Signal::Terminate).unwrap();
    leads(&pods, &[]).await.unwrap();
    // An operator that restarts in the pod of a dead leader does not keep the leader's label.
    for pod in ["one", "three"] {
        label(&pods, pod).await;
    }
    let mut three = start(&control_plane, "three").await.unwrap();
    leads(&pods, &["three"]).await.unwrap();
    // The operator removes the label from its own pod before it waits for the lease. The leader,
    // which checks the label every ten seconds, is dead, so it cannot have removed it.
    three.kill().unwrap();
    label(&pods, "one").await;
    leads(&pods, &["one", "three"]).await.unwrap();
    let _waits = start(&control_plane, "one").await.unwrap();
    leads(&pods, &["three"]).await.unwrap();
}
