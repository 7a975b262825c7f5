//! Claims that come with external pods: kube-controller-manager makes them once their pods are
//! there, before these have a node.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use trellis_e2e::jobs::SOON;
use trellis_e2e::site::Site;
use trellis_e2e::volumes::{disk, late_claim, late_class};
use trellis_e2e::wait::eventually;

use super::scene::{bound, group, node, pod, runs, told};
use super::{shared, site};

const SELECTED: &str = "volume.kubernetes.io/selected-node";

async fn apply(yaml: &str) {
    shared().await.apply_yaml(yaml).await.unwrap();
}

/// A pod has a volume "scratch" for itself, of the site's class.
fn scratch(site: &Site, pod: &mut Value) {
    let asked = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": site.name(),
        "resources": {"requests": {"storage": "1Gi"}}});
    pod["spec"]["volumes"] =
        json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": asked}}}]);
    pod["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "scratch", "mountPath": "/scratch"}]);
}

/// Acts as the provisioner: creates a disk on the node that is selected for a claim, and returns
/// this node.
async fn provision(site: &Site, claim: &str) -> String {
    let claims = site.api::<PersistentVolumeClaim>();
    let (uid, node) = eventually(SOON, || async {
        let claim = claims.get(claim).await?;
        let node = claim.annotations().get(SELECTED).cloned();
        Ok((claim.uid(), node.context("no node is selected")?))
    })
    .await
    .unwrap();
    let made = disk(&format!("{}-{claim}", site.name()), site.name(), &node);
    let mut made: Value = serde_json::from_str(&made).unwrap();
    made["spec"]["claimRef"] = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": site.name(), "name": claim, "uid": uid});
    apply(&made.to_string()).await;
    node
}

/// Volumes go with their nodes.
async fn clear(site: &Site, claims: &[&str]) {
    let volumes: Api<PersistentVolume> = Api::all(shared().await.client());
    for claim in claims {
        let name = format!("{}-{claim}", site.name());
        volumes.delete(&name, &Default::default()).await.unwrap();
    }
}

#[tokio::test]
async fn each_pod_of_a_gang_has_a_volume_of_its_own_where_it_is() {
    let site = site("scratch", 2).await;
    apply(&late_class(site.name(), Some("disks.example"))).await;
    group(&site, "g", json!({"minMember": 2})).await;
    for name in ["a", "b"] {
        pod(&site, name, 8, |pod| {
            pod["metadata"]["labels"] = json!({"trellis.dev/pod-group": "g"});
            scratch(&site, pod);
        })
        .await;
    }
    let nodes = [
        provision(&site, "a-scratch").await,
        provision(&site, "b-scratch").await,
    ];
    let pods = runs(&site, "g", 2).await;
    let on: Vec<_> = pods.iter().filter_map(node).collect();
    assert_eq!(on, nodes);
    clear(&site, &["a-scratch", "b-scratch"]).await;
}

#[tokio::test]
async fn a_claim_of_somebody_else_is_not_taken_for_the_pods_own() {
    let site = site("not-mine", 1).await;
    apply(&late_class(site.name(), Some("disks.example"))).await;
    let (claim, class) = ("p-scratch", site.name());
    apply(&late_claim(class, claim, class, "ReadWriteOnce", "1Gi")).await;
    pod(&site, "p", 1, |pod| scratch(&site, pod)).await;
    let said = told(&site, "p", "NameConflict: ").await;
    assert!(said.contains("is not pod \"p\"'s"), "{said}");
    // The pod keeps waiting, and the operator does not select a node for the foreign claim.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let claims = site.api::<PersistentVolumeClaim>();
    let theirs = claims.get(claim).await.unwrap();
    assert!(!theirs.annotations().contains_key(SELECTED), "{theirs:?}");
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
    let node = provision(&site, claim).await;
    assert_eq!(bound(&site, "p").await, node);
    clear(&site, &[claim]).await;
}
