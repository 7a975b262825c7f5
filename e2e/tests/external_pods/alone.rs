//! Pods that are in no PodGroup.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_e2e::volumes::{disk, late_claim, late_class};

use super::scene::{bound, node, pod, scheduled, told};
use super::{shared, site};

#[tokio::test]
async fn a_pod_is_a_gang_of_one_and_one_of_another_scheduler_is_nobodys_business() {
    let site = site("single", 1).await;
    pod(&site, "theirs", 1, |pod| {
        pod["spec"]["schedulerName"] = json!("other")
    })
    .await;
    pod(&site, "first", 8, |_| {}).await;
    let on = bound(&site, "first").await;
    assert_eq!(on, site.nodes().names()[0]);
    pod(&site, "second", 8, |_| {}).await;
    told(
        &site,
        "second",
        "InsufficientCapacity: needs 8 nvidia.com/gpu",
    )
    .await;
    site.delete::<Pod>("first").await;
    bound(&site, "second").await;
    let theirs = site.api::<Pod>().get("theirs").await.unwrap();
    assert!(
        node(&theirs).is_none() && scheduled(&theirs).is_none(),
        "{theirs:?}"
    );
}

#[tokio::test]
async fn gates_are_waited_for() {
    let site = site("gates", 1).await;
    pod(&site, "gated", 1, |pod| {
        pod["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]);
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let pods = site.api::<Pod>();
    let gated = pods.get("gated").await.unwrap();
    assert!(node(&gated).is_none());
    assert_eq!(
        scheduled(&gated).and_then(|c| c.reason.as_deref()),
        Some("SchedulingGated")
    );
    let open = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
    pods.patch("gated", &PatchParams::default(), &open)
        .await
        .unwrap();
    bound(&site, "gated").await;
}

#[tokio::test]
async fn a_claim_that_waits_for_its_first_consumer_is_bound_where_the_pod_is() {
    let site = site("late", 2).await;
    let control_plane = shared().await;
    let class = site.name();
    let second = &site.nodes().names()[1];
    for yaml in [
        late_class(class, None),
        disk(&format!("{class}-disk"), class, second),
        late_claim(class, "data", class, "ReadWriteOnce", "1Gi"),
    ] {
        control_plane.apply_yaml(&yaml).await.unwrap();
    }
    pod(&site, "reader", 1, |pod| {
        pod["spec"]["volumes"] =
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        pod["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "data", "mountPath": "/data"}]);
    })
    .await;
    assert_eq!(bound(&site, "reader").await, *second);
    // Deletes the volume, because its node goes with the site.
    let volumes: kube::Api<k8s_openapi::api::core::v1::PersistentVolume> =
        kube::Api::all(control_plane.client());
    let disk = format!("{class}-disk");
    let claim = volumes.get(&disk).await.unwrap().spec.unwrap().claim_ref;
    assert_eq!(claim.and_then(|claim| claim.name).as_deref(), Some("data"));
    volumes.delete(&disk, &Default::default()).await.unwrap();
}
