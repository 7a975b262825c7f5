//! Bound external pods count against the queue in which they were bound. Other pods do not count.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, names};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::site::queues::resource_groups;
use trellis_e2e::wait::eventually;

use super::fixtures::{
    create_pod, create_pod_group, create_replica_set, list_pods, node_name, read_journal,
    wait_for_unschedulable, wait_until_bound, wait_until_placed,
};
use super::{create_site, shared_control_plane};

/// A queue of 8 GPUs.
async fn create_queue(site: &TestSite) -> String {
    let name = format!("{}-q", site.name());
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": resource_groups(&[("default", 8)])},
    });
    shared_control_plane()
        .await
        .apply_yaml(&queue.to_string())
        .await
        .unwrap();
    name
}

fn with_queue_label(queue: &str) -> impl Fn(&mut Value) {
    move |pod| pod["metadata"]["labels"][names::QUEUE] = json!(queue)
}

#[tokio::test]
async fn pod_bound_by_its_user_counts_in_no_queue() {
    let site = create_site("forged", 2).await;
    let queue = create_queue(&site).await;
    let first = site.nodes().names()[0].clone();
    create_pod_group(&site, "g", json!({"minMember": 1, "queueName": queue})).await;
    // These pods come with a node, so the scheduler has not checked whether they may use the queue.
    // One names the queue, the other a PodGroup in it.
    create_pod(&site, "alone", 1, |pod| {
        with_queue_label(&queue)(pod);
        pod["spec"]["nodeName"] = json!(first);
    })
    .await;
    create_pod(&site, "member", 6, |pod| {
        pod["metadata"]["labels"][names::POD_GROUP] = json!("g");
        pod["spec"]["nodeName"] = json!(first);
    })
    .await;
    create_pod(&site, "honest", 8, with_queue_label(&queue)).await;
    assert_eq!(
        wait_until_bound(&site, "honest").await,
        site.nodes().names()[1]
    );
    // They still use the resources of their node.
    create_pod(&site, "more", 2, |_| {}).await;
    wait_for_unschedulable(&site, "more", "InsufficientCapacity: ").await;
}

#[tokio::test]
async fn gang_counts_in_its_queue_after_its_pod_group_is_replaced() {
    let site = create_site("moved", 2).await;
    let queue = create_queue(&site).await;
    create_pod_group(&site, "g", json!({"minMember": 2, "queueName": queue})).await;
    create_replica_set(&site, "g", 2, 3).await;
    let before = wait_until_placed(&site, "g", 2).await;
    let uids = |pods: &[Pod]| pods.iter().map(|pod| pod.uid()).collect::<BTreeSet<_>>();
    site.delete::<PodGroup>("g").await;
    let expected_message = "QuotaExceeded: needs 4 nvidia.com/gpu, 6 of 8 are held";
    create_pod(&site, "while-gone", 4, with_queue_label(&queue)).await;
    wait_for_unschedulable(&site, "while-gone", expected_message).await;
    // A PodGroup that requires more pods than exist, in a queue without quota.
    create_pod_group(&site, "g", json!({"minMember": 50, "queueName": "default"})).await;
    create_pod(&site, "while-small", 4, with_queue_label(&queue)).await;
    wait_for_unschedulable(&site, "while-small", expected_message).await;
    let patch = Patch::Merge(json!({"spec": {"minMember": 2}}));
    let groups = site.api::<PodGroup>();
    groups
        .patch("g", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let after = wait_until_placed(&site, "g", 2).await;
    assert_eq!(uids(&after), uids(&before), "other pods are placed now");
    let plan = read_journal(&site, "g").await.plan.unwrap();
    assert_eq!(plan.queue.as_deref(), Some(&*queue));
    create_pod(&site, "while-placed", 4, with_queue_label(&queue)).await;
    wait_for_unschedulable(&site, "while-placed", expected_message).await;
    for pod in &after {
        let queue_of = pod.annotations().get(names::PLACED_IN);
        assert_eq!(queue_of, Some(&queue));
    }
}

#[tokio::test]
async fn surplus_pods_do_not_start_without_their_gang() {
    let site = create_site("later", 1).await;
    create_pod_group(&site, "g", json!({"minMember": 2})).await;
    create_replica_set(&site, "g", 3, 4).await;
    let placed_pods = wait_until_placed(&site, "g", 2).await;
    let third = placed_pods
        .iter()
        .find(|pod| node_name(pod).is_none())
        .unwrap();
    wait_for_unschedulable(&site, &third.name_any(), "InsufficientCapacity: ").await;
    // The group requires more than the free capacity, and its gang is gone.
    site.delete::<PodGroup>("g").await;
    let third = third.name_any();
    wait_for_unschedulable(&site, &third, "PodGroupNotFound: ").await;
    let first = placed_pods
        .iter()
        .find(|pod| node_name(pod).is_some())
        .unwrap();
    let api = site.api::<Pod>();
    api.delete(&first.name_any(), &Default::default())
        .await
        .unwrap();
    eventually(SOON, || async {
        let now = list_pods(&site, "g").await;
        let is_gone = now.iter().all(|pod| pod.name_any() != first.name_any());
        ensure!(is_gone && now.len() == 3, "{} pods", now.len());
        Ok(())
    })
    .await
    .unwrap();
    // GPUs are free now, but the gang does not get them.
    let bound = || async {
        let now = list_pods(&site, "g").await;
        now.iter().filter(|pod| node_name(pod).is_some()).count()
    };
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(bound().await, 1);
    create_pod_group(&site, "g", json!({"minMember": 2})).await;
    let gang_check = eventually(SOON, || async {
        let phase = read_journal(&site, "g").await.phase;
        ensure!(phase == Some(PodGroupPhase::Placed), "{phase:?}");
        let bound = bound().await;
        ensure!(bound == 2, "{bound} are bound");
        Ok(())
    });
    gang_check.await.unwrap();
}
