//! Pods without a PodGroup.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_e2e::volumes::{disk_yaml, late_binding_claim_yaml, late_binding_class_yaml};

use super::fixtures::{
    create_pod, node_name, scheduled_condition, wait_for_unschedulable, wait_until_bound,
};
use super::{create_site, shared_control_plane};

#[tokio::test]
async fn single_pod_is_a_gang_and_pods_of_other_schedulers_are_ignored() {
    let site = create_site("single", 1).await;
    create_pod(&site, "theirs", 1, |pod| {
        pod["spec"]["schedulerName"] = json!("other")
    })
    .await;
    create_pod(&site, "first", 8, |_| {}).await;
    let on = wait_until_bound(&site, "first").await;
    assert_eq!(on, site.nodes().names()[0]);
    create_pod(&site, "second", 8, |_| {}).await;
    wait_for_unschedulable(
        &site,
        "second",
        "InsufficientCapacity: needs 8 nvidia.com/gpu",
    )
    .await;
    site.delete::<Pod>("first").await;
    wait_until_bound(&site, "second").await;
    let foreign_pod = site.api::<Pod>().get("theirs").await.unwrap();
    assert!(
        node_name(&foreign_pod).is_none() && scheduled_condition(&foreign_pod).is_none(),
        "{foreign_pod:?}"
    );
}

#[tokio::test]
async fn gated_pod_is_bound_when_its_gate_is_removed() {
    let site = create_site("gates", 1).await;
    create_pod(&site, "gated", 1, |pod| {
        pod["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]);
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let pods = site.api::<Pod>();
    let gated = pods.get("gated").await.unwrap();
    assert!(node_name(&gated).is_none());
    assert_eq!(
        scheduled_condition(&gated).and_then(|c| c.reason.as_deref()),
        Some("SchedulingGated")
    );
    let open = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
    pods.patch("gated", &PatchParams::default(), &open)
        .await
        .unwrap();
    wait_until_bound(&site, "gated").await;
}

#[tokio::test]
async fn late_binding_claim_is_bound_on_the_node_of_the_pod() {
    let site = create_site("late", 2).await;
    let control_plane = shared_control_plane().await;
    let class = site.name();
    let second = &site.nodes().names()[1];
    for yaml in [
        late_binding_class_yaml(class, None),
        disk_yaml(&format!("{class}-disk"), class, second),
        late_binding_claim_yaml(class, "data", class, "ReadWriteOnce", "1Gi"),
    ] {
        control_plane.apply_yaml(&yaml).await.unwrap();
    }
    create_pod(&site, "reader", 1, |pod| {
        pod["spec"]["volumes"] =
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        pod["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "data", "mountPath": "/data"}]);
    })
    .await;
    assert_eq!(wait_until_bound(&site, "reader").await, *second);
    // Deletes the volume, because its node goes with the site.
    let volumes: kube::Api<k8s_openapi::api::core::v1::PersistentVolume> =
        kube::Api::all(control_plane.client());
    let disk = format!("{class}-disk");
    let claim = volumes.get(&disk).await.unwrap().spec.unwrap().claim_ref;
    assert_eq!(claim.and_then(|claim| claim.name).as_deref(), Some("data"));
    volumes.delete(&disk, &Default::default()).await.unwrap();
}
