//! Claims that come with each pod: kube-controller-manager makes them, and somebody has to say
//! where their volumes are to be.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::jobs::{SOON, message};
use trellis_e2e::kubelet::HANG;
use trellis_e2e::site::Site;
use trellis_e2e::volumes::{disk, late_claim, late_class};
use trellis_e2e::wait::eventually;

use super::{shared, site};

const SELECTED: &str = "volume.kubernetes.io/selected-node";

/// The job "j", whose pods have a volume "scratch" of this class each.
fn scratch(site: &Site, class: &str, replicas: u32, gpus: u32) -> Value {
    let mut job = site.job("j", replicas, gpus);
    let asked = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": "1Gi"}}});
    job["spec"]["taskGroups"][0]["podTemplate"] = json!({"spec": {
        "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": asked}}}],
        "containers": [{"name": "main", "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}],
    }});
    job
}

/// As real kubelets do, these hold their pods until somebody says that their volumes are there.
async fn holding(site: &Site) -> PodPolicy {
    let control_plane = shared().await;
    let words = [(HANG, "true")];
    let policy = PodPolicy::tell_kubelets(control_plane, site.name(), &words);
    policy.await.unwrap()
}

async fn let_go(site: &Site, pods: &[Pod]) {
    for pod in pods {
        site.annotate(&pod.name_any(), HANG, "false").await;
    }
}

async fn apply(yaml: &str) {
    shared().await.apply_yaml(yaml).await.unwrap();
}

fn claims(site: &Site) -> Api<PersistentVolumeClaim> {
    site.api()
}

/// Waits until a volume is asked for, and says for which node.
async fn asked_for(site: &Site, claim: &str, not: Option<&str>) -> String {
    let claims = claims(site);
    let node = eventually(SOON, || async {
        let claim = claims.get(claim).await?;
        let node = claim.annotations().get(SELECTED).cloned();
        let node = node.context("no node is selected")?;
        ensure!(Some(&*node) != not, "still {node}");
        Ok(node)
    });
    node.await.unwrap()
}

/// What a provisioner makes for a claim: a disk of the node.
async fn provision(site: &Site, claim: &str, node: &str) {
    let uid = claims(site).get(claim).await.unwrap().uid();
    let made = disk(&format!("{}-{claim}", site.name()), site.name(), node);
    let mut made: Value = serde_json::from_str(&made).unwrap();
    made["spec"]["claimRef"] = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": site.name(), "name": claim, "uid": uid});
    apply(&made.to_string()).await;
}

/// Waits until the gang has its place and all that comes with it.
async fn placed(site: &Site, pods: usize) -> Vec<Pod> {
    site.becomes("j", |s| s.scheduled_time.is_some()).await;
    site.whole("j", pods).await
}

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().node_name.as_deref().unwrap()
}

#[tokio::test]
async fn each_pod_has_a_volume_where_it_is_and_the_gang_is_whole_once_all_are_there() {
    let site = site("scratch", 2).await;
    apply(&late_class(site.name(), Some("disks.example"))).await;
    let _held = holding(&site).await;
    site.create(scratch(&site, site.name(), 2, 8))
        .await
        .unwrap();
    site.pods_become("j", 2).await;
    let pods = site.pods("j").await;
    for pod in &pods {
        let claim = format!("{}-scratch", pod.name_any());
        let node = asked_for(&site, &claim, None).await;
        assert_eq!(node, node_of(pod));
        provision(&site, &claim, &node).await;
    }
    let pods = placed(&site, 2).await;
    let_go(&site, &pods).await;
    site.reaches("j", JobPhase::Running).await;
    // They go with their pods.
    site.patch("j", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    let claims = claims(&site);
    eventually(SOON, || async {
        let left = claims.list(&Default::default()).await?.items.len();
        ensure!(left == 0, "{left} claims are left");
        Ok(())
    })
    .await
    .unwrap();
}

/// Two disks on one node and one on the other: of four free places there, three will do, and the
/// gang of four is not begun.
#[tokio::test]
async fn a_gang_for_which_there_are_too_few_disks_is_not_begun() {
    let site = site("few-disks", 2).await;
    apply(&late_class(site.name(), None)).await;
    let names = site.nodes().names();
    let volume = |at: usize| format!("{}-{at}", site.name());
    for (at, node) in [(0, 0), (1, 0), (2, 1)] {
        apply(&disk(&volume(at), site.name(), &names[node])).await;
    }
    let _held = holding(&site).await;
    site.create(scratch(&site, site.name(), 4, 4))
        .await
        .unwrap();
    let not_bound = |r: Reason| r == Reason::ClaimNotBound;
    let waits = site.becomes("j", |s| s.reason.is_some_and(not_bound)).await;
    let words = "-scratch\" is not bound";
    assert!(message(&waits).contains(words), "{}", message(&waits));
    assert!(site.pods("j").await.is_empty());
    let volumes: Api<PersistentVolume> = Api::all(shared().await.client());
    for at in 0..3 {
        let volume = volumes.get(&volume(at)).await.unwrap();
        assert!(volume.spec.unwrap().claim_ref.is_none(), "{at}");
    }
    apply(&disk(&volume(3), site.name(), &names[1])).await;
    let pods = placed(&site, 4).await;
    let bound: BTreeSet<String> = claims(&site)
        .list(&Default::default())
        .await
        .unwrap()
        .into_iter()
        .filter_map(|claim| claim.spec?.volume_name)
        .collect();
    assert_eq!(bound.len(), 4);
    let_go(&site, &pods).await;
    site.reaches("j", JobPhase::Running).await;
}

/// A provisioner that cannot takes the selected node away again: the gang goes elsewhere, whole.
#[tokio::test]
async fn where_a_pods_volume_cannot_be_provisioned_the_gang_is_undone() {
    let site = site("no-scratch", 2).await;
    apply(&late_class(site.name(), Some("disks.example"))).await;
    let _held = holding(&site).await;
    site.create(scratch(&site, site.name(), 1, 1))
        .await
        .unwrap();
    let claim = "j-worker-0-scratch";
    let first = asked_for(&site, claim, None).await;
    let refused = Patch::Merge(json!({"metadata": {"annotations": {SELECTED: null}}}));
    let params = PatchParams::default();
    claims(&site).patch(claim, &params, &refused).await.unwrap();
    let second = asked_for(&site, claim, Some(&first)).await;
    provision(&site, claim, &second).await;
    let pods = placed(&site, 1).await;
    assert_eq!(node_of(&pods[0]), second);
    let_go(&site, &pods).await;
    site.reaches("j", JobPhase::Running).await;
}

#[tokio::test]
async fn a_claim_of_somebody_else_with_the_name_is_told_before_anything_is_begun() {
    let site = site("not-mine", 1).await;
    apply(&late_class(site.name(), Some("disks.example"))).await;
    let claim = "j-worker-0-scratch";
    apply(&late_claim(
        site.name(),
        claim,
        site.name(),
        "ReadWriteOnce",
        "1Gi",
    ))
    .await;
    let _held = holding(&site).await;
    site.create(scratch(&site, site.name(), 1, 1))
        .await
        .unwrap();
    let taken = |r: Reason| r == Reason::NameConflict;
    let waits = site.becomes("j", |s| s.reason.is_some_and(taken)).await;
    let words = "is there and is not pod \"j-worker-0\"'s";
    assert!(message(&waits).contains(words), "{}", message(&waits));
    assert!(site.pods("j").await.is_empty());
    claims(&site)
        .delete(claim, &Default::default())
        .await
        .unwrap();
    let node = asked_for(&site, claim, None).await;
    provision(&site, claim, &node).await;
    let_go(&site, &placed(&site, 1).await).await;
    site.reaches("j", JobPhase::Running).await;
}

/// A pod beyond the gang comes after its plan, and so does its claim.
#[tokio::test]
async fn a_pod_beyond_the_gang_has_its_volume_too() {
    let site = site("board-scratch", 1).await;
    apply(&late_class(site.name(), Some("disks.example"))).await;
    let _held = holding(&site).await;
    let mut job = scratch(&site, site.name(), 1, 1);
    let mut board = job["spec"]["taskGroups"][0].clone();
    board["name"] = json!("board");
    board["gang"] = json!(false);
    board["command"] = json!(["board"]);
    let groups = job["spec"]["taskGroups"].as_array_mut().unwrap();
    groups[0].as_object_mut().unwrap().remove("podTemplate");
    groups.push(board);
    site.create(job).await.unwrap();
    let claim = "j-board-0-scratch";
    let node = asked_for(&site, claim, None).await;
    provision(&site, claim, &node).await;
    let claims = claims(&site);
    eventually(SOON, || async {
        let phase = claims.get(claim).await?.status.and_then(|s| s.phase);
        ensure!(phase.as_deref() == Some("Bound"), "{phase:?}");
        Ok(())
    })
    .await
    .unwrap();
}
