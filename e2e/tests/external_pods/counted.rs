//! Bound external pods count against the queue in which they were bound, and no other pods count
//! there.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, names};
use trellis_e2e::jobs::SOON;
use trellis_e2e::queues::resource_groups;
use trellis_e2e::site::Site;
use trellis_e2e::wait::eventually;

use super::scene::{bound, group, journal, node, pod, pods, replicas, runs, told};
use super::{shared, site};

/// A queue of 8 GPUs.
async fn queue(site: &Site) -> String {
    let name = format!("{}-q", site.name());
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": resource_groups(&[("default", 8)])},
    });
    shared().await.apply_yaml(&queue.to_string()).await.unwrap();
    name
}

fn in_queue(queue: &str) -> impl Fn(&mut Value) {
    move |pod| pod["metadata"]["labels"][names::QUEUE] = json!(queue)
}

#[tokio::test]
async fn a_pod_that_its_user_has_bound_counts_in_no_queue() {
    let site = site("forged", 2).await;
    let queue = queue(&site).await;
    let first = site.nodes().names()[0].clone();
    group(&site, "g", json!({"minMember": 1, "queueName": queue})).await;
    // These pods come with a node, so the scheduler has not checked whether they may use the queue.
    // One names the queue, the other a PodGroup in it.
    pod(&site, "alone", 1, |pod| {
        in_queue(&queue)(pod);
        pod["spec"]["nodeName"] = json!(first);
    })
    .await;
    pod(&site, "member", 6, |pod| {
        pod["metadata"]["labels"][names::POD_GROUP] = json!("g");
        pod["spec"]["nodeName"] = json!(first);
    })
    .await;
    pod(&site, "honest", 8, in_queue(&queue)).await;
    assert_eq!(bound(&site, "honest").await, site.nodes().names()[1]);
    // They hold their node all the same.
    pod(&site, "more", 2, |_| {}).await;
    told(&site, "more", "InsufficientCapacity: ").await;
}

#[tokio::test]
async fn a_gang_whose_group_is_another_counts_where_it_did() {
    let site = site("moved", 2).await;
    let queue = queue(&site).await;
    group(&site, "g", json!({"minMember": 2, "queueName": queue})).await;
    replicas(&site, "g", 2, 3).await;
    let before = runs(&site, "g", 2).await;
    let uids = |pods: &[Pod]| pods.iter().map(|pod| pod.uid()).collect::<BTreeSet<_>>();
    site.delete::<PodGroup>("g").await;
    let held = "QuotaExceeded: needs 4 nvidia.com/gpu, 6 of 8 are held";
    pod(&site, "while-gone", 4, in_queue(&queue)).await;
    told(&site, "while-gone", held).await;
    // A PodGroup that asks for more pods than exist, in a queue without quota.
    group(&site, "g", json!({"minMember": 50, "queueName": "default"})).await;
    pod(&site, "while-small", 4, in_queue(&queue)).await;
    told(&site, "while-small", held).await;
    let patch = Patch::Merge(json!({"spec": {"minMember": 2}}));
    let groups = site.api::<PodGroup>();
    groups
        .patch("g", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let after = runs(&site, "g", 2).await;
    assert_eq!(uids(&after), uids(&before), "it was torn");
    let plan = journal(&site, "g").await.plan.unwrap();
    assert_eq!(plan.queue.as_deref(), Some(&*queue));
    pod(&site, "while-placed", 4, in_queue(&queue)).await;
    told(&site, "while-placed", held).await;
    for pod in &after {
        let queue_of = pod.annotations().get(names::PLACED_IN);
        assert_eq!(queue_of, Some(&queue));
    }
}

#[tokio::test]
async fn pods_that_came_later_do_not_start_without_their_gang() {
    let site = site("later", 1).await;
    group(&site, "g", json!({"minMember": 2})).await;
    replicas(&site, "g", 3, 4).await;
    let there = runs(&site, "g", 2).await;
    let third = there.iter().find(|pod| node(pod).is_none()).unwrap();
    told(&site, &third.name_any(), "InsufficientCapacity: ").await;
    // The group asks for more than there is room for, and its gang is gone.
    site.delete::<PodGroup>("g").await;
    let third = third.name_any();
    told(&site, &third, "PodGroupNotFound: ").await;
    let first = there.iter().find(|pod| node(pod).is_some()).unwrap();
    let api = site.api::<Pod>();
    api.delete(&first.name_any(), &Default::default())
        .await
        .unwrap();
    eventually(SOON, || async {
        let now = pods(&site, "g").await;
        let gone = now.iter().all(|pod| pod.name_any() != first.name_any());
        ensure!(gone && now.len() == 3, "{} pods", now.len());
        Ok(())
    })
    .await
    .unwrap();
    // GPUs are free now, and the gang does not take them.
    let bound = || async {
        let now = pods(&site, "g").await;
        now.iter().filter(|pod| node(pod).is_some()).count()
    };
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(bound().await, 1);
    group(&site, "g", json!({"minMember": 2})).await;
    let whole = eventually(SOON, || async {
        let phase = journal(&site, "g").await.phase;
        ensure!(phase == Some(PodGroupPhase::Placed), "{phase:?}");
        let bound = bound().await;
        ensure!(bound == 2, "{bound} are bound");
        Ok(())
    });
    whole.await.unwrap();
}
