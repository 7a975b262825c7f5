//! Ephemeral claims of external pods. kube-controller-manager creates them as soon as their pods
//! exist, before the pods have a node.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::volumes::{disk_yaml, late_binding_claim_yaml, late_binding_class_yaml};
use trellis_e2e::wait::eventually;

use super::fixtures::{
    create_pod, create_pod_group, node_name, wait_for_unschedulable, wait_until_bound,
    wait_until_placed,
};
use super::{create_site, shared_control_plane};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

async fn apply_yaml(yaml: &str) {
    shared_control_plane().await.apply_yaml(yaml).await.unwrap();
}

/// Adds a volume "scratch" with an ephemeral claim of the site's class to a pod.
fn add_scratch_volume(site: &TestSite, pod: &mut Value) {
    let claim_spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": site.name(),
        "resources": {"requests": {"storage": "1Gi"}}});
    pod["spec"]["volumes"] =
        json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec}}}]);
    pod["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "scratch", "mountPath": "/scratch"}]);
}

/// Acts as the provisioner: creates a disk on the node that is selected for a claim, and returns
/// this node.
async fn provision_volume(site: &TestSite, claim: &str) -> String {
    let claims = site.api::<PersistentVolumeClaim>();
    let (uid, node) = eventually(SOON, || async {
        let claim = claims.get(claim).await?;
        let node = claim.annotations().get(SELECTED_NODE).cloned();
        Ok((claim.uid(), node.context("no node is selected")?))
    })
    .await
    .unwrap();
    let volume = disk_yaml(&format!("{}-{claim}", site.name()), site.name(), &node);
    let mut volume: Value = serde_json::from_str(&volume).unwrap();
    volume["spec"]["claimRef"] = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": site.name(), "name": claim, "uid": uid});
    apply_yaml(&volume.to_string()).await;
    node
}

/// Deletes the volumes with their nodes.
async fn delete_volumes(site: &TestSite, claims: &[&str]) {
    let volumes: Api<PersistentVolume> = Api::all(shared_control_plane().await.client());
    for claim in claims {
        let name = format!("{}-{claim}", site.name());
        volumes.delete(&name, &Default::default()).await.unwrap();
    }
}

#[tokio::test]
async fn each_pod_of_a_gang_has_its_own_volume_on_its_node() {
    let site = create_site("scratch", 2).await;
    apply_yaml(&late_binding_class_yaml(site.name(), Some("disks.example"))).await;
    create_pod_group(&site, "g", json!({"minMember": 2})).await;
    for name in ["a", "b"] {
        create_pod(&site, name, 8, |pod| {
            pod["metadata"]["labels"] = json!({"trellis.dev/pod-group": "g"});
            add_scratch_volume(&site, pod);
        })
        .await;
    }
    let nodes = [
        provision_volume(&site, "a-scratch").await,
        provision_volume(&site, "b-scratch").await,
    ];
    let pods = wait_until_placed(&site, "g", 2).await;
    let on: Vec<_> = pods.iter().filter_map(node_name).collect();
    assert_eq!(on, nodes);
    delete_volumes(&site, &["a-scratch", "b-scratch"]).await;
}

#[tokio::test]
async fn foreign_claim_is_not_used_as_an_ephemeral_claim() {
    let site = create_site("not-mine", 1).await;
    apply_yaml(&late_binding_class_yaml(site.name(), Some("disks.example"))).await;
    let (claim, class) = ("p-scratch", site.name());
    apply_yaml(&late_binding_claim_yaml(
        class,
        claim,
        class,
        "ReadWriteOnce",
        "1Gi",
    ))
    .await;
    create_pod(&site, "p", 1, |pod| add_scratch_volume(&site, pod)).await;
    let condition_message = wait_for_unschedulable(&site, "p", "NameConflict: ").await;
    assert!(
        condition_message.contains("is not pod \"p\"'s"),
        "{condition_message}"
    );
    // The pod keeps waiting, and the operator does not select a node for the foreign claim.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let claims = site.api::<PersistentVolumeClaim>();
    let foreign_claim = claims.get(claim).await.unwrap();
    assert!(
        !foreign_claim.annotations().contains_key(SELECTED_NODE),
        "{foreign_claim:?}"
    );
    claims.delete(claim, &Default::default()).await.unwrap();
    eventually(SOON, || async {
        let own = claims.get(claim).await?;
        let owner = own
            .owner_references()
            .first()
            .map(|owner| owner.uid.clone());
        let pod = site.api::<Pod>().get("p").await?;
        ensure!(owner.is_some() && owner == pod.uid(), "{owner:?}");
        Ok(())
    })
    .await
    .unwrap();
    let node = provision_volume(&site, claim).await;
    assert_eq!(wait_until_bound(&site, "p").await, node);
    delete_volumes(&site, &[claim]).await;
}
