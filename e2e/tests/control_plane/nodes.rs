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
    cluster::{Nodes, RACK_LABEL, SCOPE},
    namespace::TestNamespace,
    wait::{wait_for, wait_gone},
};

use super::{SOON, phase, pod, shared};

fn ready(node: &Node) -> &str {
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

fn tainted(node: &Node, key: &str) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().any(|taint| taint.key == key)
}

fn gpus(node: &Node) -> Option<String> {
    let allocatable = node.status.as_ref()?.allocatable.as_ref()?;
    Some(allocatable.get("nvidia.com/gpu")?.0.clone())
}

#[tokio::test]
async fn nodes_have_what_they_were_given_and_a_lease() {
    let control_plane = shared().await;
    let nodes = Nodes::new(4)
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
    assert_eq!(ready(&last), "True");
    assert_eq!(gpus(&last).as_deref(), Some("4"));
    assert!(tainted(&last, SCOPE));
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
    wait_gone(&api, "given-gpu-3", SOON).await.unwrap();
}

#[tokio::test]
async fn a_lost_node_stays_lost_with_its_pods_until_it_comes_back() {
    let control_plane = shared().await;
    let nodes = Nodes::new(1)
        .scope("lost")
        .create(control_plane)
        .await
        .unwrap();
    let namespace = TestNamespace::create(control_plane, "lost").await.unwrap();
    let pods: Api<Pod> = namespace.api();
    let name = &nodes.names()[0];
    pods.create(&PostParams::default(), &pod("p", name, json!({})))
        .await
        .unwrap();
    wait_for(&pods, "p", SOON, |pod| phase(pod) == "Running")
        .await
        .unwrap();

    nodes.not_ready(name).await.unwrap();
    let api: Api<Node> = Api::all(control_plane.client());
    let unreachable = "node.kubernetes.io/unreachable";
    let lost = |node: &Node| ready(node) == "Unknown" && tainted(node, unreachable);
    wait_for(&api, name, SOON, lost).await.unwrap();
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    pods.create(&PostParams::default(), &pod("late", name, json!({})))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(lost(&api.get(name).await.unwrap()));
    let terminating = pods.get("p").await.unwrap();
    assert!(terminating.metadata.deletion_timestamp.is_some());
    assert_eq!(phase(&terminating), "Running");
    assert_eq!(phase(&pods.get("late").await.unwrap()), "Pending");

    nodes.ready_again(name).await.unwrap();
    nodes.wait_ready().await.unwrap();
    wait_gone(&pods, "p", SOON).await.unwrap();
    wait_for(&pods, "late", SOON, |pod| phase(pod) == "Running")
        .await
        .unwrap();
}

#[tokio::test]
async fn nodes_shrink_are_cordoned_tainted_and_deleted() {
    let control_plane = shared().await;
    let nodes = Nodes::new(2)
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
    // The controller manager taints it for its cordon.
    let api: Api<Node> = Api::all(control_plane.client());
    let cordoned = |node: &Node| tainted(node, "node.kubernetes.io/unschedulable");
    wait_for(&api, first, SOON, cordoned).await.unwrap();
    // Long enough for kwok to have put things right if it meant to.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let node = nodes.get(first).await.unwrap();
    assert_eq!(gpus(&node).as_deref(), Some("6"));
    assert_eq!(gpus(&nodes.get(second).await.unwrap()), None);
    assert_eq!(ready(&node), "True");
    assert!(tainted(&node, "bad") && tainted(&node, "node.kubernetes.io/unschedulable"));
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
    let free =
        |node: &Node| !tainted(node, "bad") && !tainted(node, "node.kubernetes.io/unschedulable");
    wait_for(&api, first, SOON, free).await.unwrap();
    nodes.delete(second).await.unwrap();
    assert!(nodes.get(second).await.is_err());
}
