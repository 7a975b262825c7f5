//! Failures that a user of the demo requests.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};
use trellis_e2e::kubelet::failures::{
    self, FAIL, IMAGE_PULL, MISSING_SECRET, NODE_LOST, NODE_NOT_READY,
};
use trellis_e2e::wait::{eventually, wait_for};

use super::{SOON, pod_on_node, pod_phase};

fn job_pod(name: &str, node: &str, failure: &str) -> Pod {
    let mut pod = pod_on_node(name, node, json!({}));
    let labels = [("trellis.dev/job", name), (FAIL, failure)];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    pod.metadata.labels = Some(labels.into());
    pod
}

fn waiting_reason(pod: &Pod) -> Option<(String, String)> {
    let status = pod.status.as_ref()?.container_statuses.as_ref()?;
    let waiting = status.first()?.state.as_ref()?.waiting.as_ref()?;
    Some((waiting.reason.clone()?, waiting.message.clone()?))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_fails_as_its_label_requests_and_other_pods_run() {
    let control_plane = ControlPlane::start(ControlPlaneOptions::default())
        .await
        .unwrap();
    let nodes = NodeTemplate::new(3).create(&control_plane).await.unwrap();
    failures::install(&control_plane).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(control_plane.client(), "default");
    let create = async |pod: Pod| pods.create(&PostParams::default(), &pod).await.unwrap();
    let [first, second, third] = nodes.names() else {
        panic!("{:?}", nodes.names())
    };
    // The API server enforces the policy after a moment.
    let mut tries = 0;
    eventually(SOON, || {
        tries += 1;
        let pod = job_pod(&format!("pull-{tries}"), first, IMAGE_PULL);
        async {
            let name = create(pod).await.metadata.name.unwrap();
            let failing_pod = wait_for(&pods, &name, SOON, |p: &Pod| {
                waiting_reason(p).is_some() || pod_phase(p) == "Running"
            });
            let (reason, message) = waiting_reason(&failing_pod.await?).unwrap_or_default();
            anyhow::ensure!(reason == "ImagePullBackOff", "{reason}");
            anyhow::ensure!(message.contains("\"busybox\": not found"), "{message}");
            Ok(())
        }
    })
    .await
    .unwrap();
    create(job_pod("secret", first, MISSING_SECRET)).await;
    let failing_pod = wait_for(&pods, "secret", SOON, |p: &Pod| waiting_reason(p).is_some());
    let (reason, message) = waiting_reason(&failing_pod.await.unwrap()).unwrap();
    assert_eq!(reason, "CreateContainerConfigError");
    assert!(message.contains("Secret"), "{message}");

    create(job_pod("away", second, NODE_NOT_READY)).await;
    create(job_pod("lost", third, NODE_LOST)).await;
    let fails = async {
        eventually(SOON, || async {
            let node = nodes.get(second).await?;
            let conditions = node.status.and_then(|s| s.conditions).unwrap_or_default();
            let ready = conditions.iter().find(|c| c.type_ == "Ready");
            anyhow::ensure!(ready.is_some_and(|c| c.status == "Unknown"), "{ready:?}");
            anyhow::ensure!(nodes.get(third).await.is_err(), "{third} is there");
            Ok(())
        })
        .await
        .unwrap();
    };
    tokio::select! {
        () = fails => {}
        () = failures::fail_requested_nodes(&control_plane, &nodes, |_| {}) => unreachable!("it ends"),
    }
    let node = nodes.get(first).await.unwrap();
    assert_eq!(node.metadata.name.as_deref(), Some(first.as_str()));
}
