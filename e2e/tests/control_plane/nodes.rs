//! Simulated nodes.

use std::time::Duration;

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod},
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use trellis_e2e::{
    cluster::{NodeTemplate, RACK_LABEL, SCOPE_LABEL},
    site::namespace::TestNamespace,
    wait::{wait_for, wait_until_deleted},
};

use super::{SOON, pod_on_node, pod_phase, shared_control_plane};

fn ready_status(node: &Node) -> &str {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready");
    ready.map_or("", |condition| &condition.status)
}

fn has_taint(node: &Node, key: &str) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().any(|taint| taint.key == key)
}

fn allocatable_gpus(node: &Node) -> Option<String> {
    let allocatable = node.status.as_ref()?.allocatable.as_ref()?;
    Some(allocatable.get("nvidia.com/gpu")?.0.clone())
}

#[tokio::test]
async fn nodes_have_the_requested_properties_and_a_lease() {
    let control_plane = shared_control_plane().await;
    let nodes = NodeTemplate::new(4)
        .gpus(4)
        .racks(2)
        .scope("given")
        .scope_taint()
        .create(control_plane)
        .await
        .unwrap();
    assert_eq!(
        nodes.names(),
        ["given-gpu-0", "given-gpu-1", "given-gpu-2", "given-gpu-3"]
    );
    let last = nodes.get("given-gpu-3").await.unwrap();
    assert_eq!(ready_status(&last), "True");
    assert_eq!(allocatable_gpus(&last).as_deref(), Some("4"));
    assert!(has_taint(&last, SCOPE_LABEL));
    let labels = last.metadata.labels.unwrap();
    assert_eq!(labels[RACK_LABEL], "r1");
    let leases: Api<Lease> = Api::namespaced(control_plane.client(), "kube-node-lease");
    let renewed = |lease: &Lease| {
        lease
            .spec
            .as_ref()
            .is_some_and(|spec| spec.renew_time.is_some())
    };
    wait_for(&leases, "given-gpu-3", SOON, renewed)
        .await
        .unwrap();

    let api: Api<Node> = Api::all(control_plane.client());
    drop(nodes);
    wait_until_deleted(&api, "given-gpu-3", SOON).await.unwrap();
}

#[tokio::test]
async fn a_lost_node_stays_lost_with_its_pods_until_it_returns() {
    let control_plane = shared_control_plane().await;
    let nodes = NodeTemplate::new(1)
        .scope("lost")
        .create(control_plane)
        .await
        .unwrap();
    let namespace = TestNamespace::create(control_plane, "lost").await.unwrap();
    let pods: Api<Pod> = namespace.api();
    let name = &nodes.names()[0];
    pods.create(&PostParams::default(), &pod_on_node("p", name, json!({})))
        .await
        .unwrap();
    wait_for(&pods, "p", SOON, |pod| pod_phase(pod) == "Running")
        .await
        .unwrap();

    nodes.kill_kubelet(name).await.unwrap();
    let api: Api<Node> = Api::all(control_plane.client());
    let unreachable = "node.kubernetes.io/unreachable";
    let lost = |node: &Node| ready_status(node) == "Unknown" && has_taint(node, unreachable);
    wait_for(&api, name, SOON, lost).await.unwrap();
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    pods.create(
        &PostParams::default(),
        &pod_on_node("late", name, json!({})),
    )
    .await
    .unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(lost(&api.get(name).await.unwrap()));
    let terminating = pods.get("p").await.unwrap();
    assert!(terminating.metadata.deletion_timestamp.is_some());
    assert_eq!(pod_phase(&terminating), "Running");
    assert_eq!(pod_phase(&pods.get("late").await.unwrap()), "Pending");

    nodes.restore_kubelet(name).await.unwrap();
    nodes.wait_until_ready().await.unwrap();
    wait_until_deleted(&pods, "p", SOON).await.unwrap();
    wait_for(&pods, "late", SOON, |pod| pod_phase(pod) == "Running")
        .await
        .unwrap();
}

#[tokio::test]
async fn nodes_can_be_resized_cordoned_tainted_and_deleted() {
    let control_plane = shared_control_plane().await;
    let nodes = NodeTemplate::new(2)
        .scope("change")
        .create(control_plane)
        .await
        .unwrap();
    let [first, second] = nodes.names() else {
        panic!("two nodes")
    };
    nodes
        .set_allocatable(first, "nvidia.com/gpu", "6")
        .await
        .unwrap();
    nodes
        .set_allocatable(second, "nvidia.com/gpu", "")
        .await
        .unwrap();
    nodes.cordon(first).await.unwrap();
    nodes
        .taint(first, "bad", "yes", "NoSchedule")
        .await
        .unwrap();
    nodes.label(first, "tier", Some("gold")).await.unwrap();
    nodes
        .set_condition(first, "GpuThermalWatch", "True", "TooHot")
        .await
        .unwrap();
    // The controller manager adds a taint to the cordoned node.
    let api: Api<Node> = Api::all(control_plane.client());
    let cordoned = |node: &Node| has_taint(node, "node.kubernetes.io/unschedulable");
    wait_for(&api, first, SOON, cordoned).await.unwrap();
    // Long enough for kwok to overwrite the condition if it does so.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let node = nodes.get(first).await.unwrap();
    assert_eq!(allocatable_gpus(&node).as_deref(), Some("6"));
    assert_eq!(allocatable_gpus(&nodes.get(second).await.unwrap()), None);
    assert_eq!(ready_status(&node), "True");
    assert!(has_taint(&node, "bad") && has_taint(&node, "node.kubernetes.io/unschedulable"));
    assert_eq!(node.metadata.labels.as_ref().unwrap()["tier"], "gold");
    let conditions = node.status.unwrap().conditions.unwrap();
    assert!(
        conditions
            .iter()
            .any(|condition| condition.type_ == "GpuThermalWatch")
    );
    assert_eq!(node.spec.unwrap().unschedulable, Some(true));

    nodes.uncordon(first).await.unwrap();
    nodes.untaint(first, "bad").await.unwrap();
    let free = |node: &Node| {
        !has_taint(node, "bad") && !has_taint(node, "node.kubernetes.io/unschedulable")
    };
    wait_for(&api, first, SOON, free).await.unwrap();
    nodes.delete(second).await.unwrap();
    assert!(nodes.get(second).await.is_err());
}
