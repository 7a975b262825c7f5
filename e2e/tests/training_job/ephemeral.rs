//! Claims that are created with each pod. kube-controller-manager creates them, and Trellis selects
//! the nodes of their volumes.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
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

/// These kubelets hold their pods, as real ones do, until the test reports that the volumes exist.
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

/// Acts as the provisioner: creates a disk on the node for a claim.
async fn provision(site: &Site, claim: &str, node: &str, volume: &str) {
    let uid = claims(site).get(claim).await.unwrap().uid();
    let made = disk(volume, site.name(), node);
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

fn volume(site: &Site, claim: &str) -> String {
    format!("{}-{claim}", site.name())
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
        provision(&site, &claim, &node, &volume(&site, &claim)).await;
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

/// The operator does not count the existing disks of a node.
#[tokio::test]
async fn a_class_that_provisions_nothing_is_told() {
    let site = site("no-scratch", 1).await;
    apply(&late_class(site.name(), None)).await;
    site.create(scratch(&site, site.name(), 1, 1))
        .await
        .unwrap();
    let not_bound = |r: Reason| r == Reason::ClaimNotBound;
    let waits = site.becomes("j", |s| s.reason.is_some_and(not_bound)).await;
    let field = "spec.taskGroups[0].podTemplate.spec.volumes[0].ephemeral.volumeClaimTemplate: ";
    assert!(message(&waits).starts_with(field), "{}", message(&waits));
    assert!(
        message(&waits).contains("provisions none"),
        "{}",
        message(&waits)
    );
    assert!(site.pods("j").await.is_empty());
}

/// The names of pods are those of before, and so are those of their claims.
#[tokio::test]
async fn a_gang_that_starts_again_has_new_volumes() {
    let site = site("again", 1).await;
    apply(&late_class(site.name(), Some("disks.example"))).await;
    let _held = holding(&site).await;
    site.create(scratch(&site, site.name(), 1, 1))
        .await
        .unwrap();
    let claim = "j-worker-0-scratch";
    let claims = claims(&site);
    let mut uids = BTreeSet::new();
    for attempt in 1..=2 {
        let pods = placed(&site, 1).await;
        let claim = eventually(SOON, || async {
            let claim = claims.get(claim).await?;
            let owner = claim
                .owner_references()
                .first()
                .map(|owner| owner.uid.clone());
            ensure!(owner == pods[0].uid(), "of another pod");
            ensure!(
                claim.annotations().contains_key(SELECTED),
                "no node is selected"
            );
            Ok(claim)
        })
        .await
        .unwrap();
        assert!(uids.insert(claim.uid()));
        // The volume of the first is still there.
        let volume = format!("{}-{attempt}", site.name());
        provision(&site, "j-worker-0-scratch", node_of(&pods[0]), &volume).await;
        let_go(&site, &pods).await;
        site.runs_again("j", attempt).await;
        if attempt == 1 {
            site.exit("j-worker-0", "1").await;
            site.becomes("j", |s| s.attempt == Some(2)).await;
        }
    }
}

/// A provisioner that cannot takes the selected node away again: the gang goes elsewhere, whole.
#[tokio::test]
async fn where_a_pods_volume_cannot_be_provisioned_the_gang_goes_elsewhere() {
    let site = site("refused-disk", 2).await;
    apply(&late_class(site.name(), Some("disks.example"))).await;
    let _held = holding(&site).await;
    site.create(scratch(&site, site.name(), 1, 1))
        .await
        .unwrap();
    let claim = "j-worker-0-scratch";
    let first = asked_for(&site, claim, None).await;
    let not_bound = |r: Reason| r == Reason::ClaimNotBound;
    let waits = site.becomes("j", |s| s.reason.is_some_and(not_bound)).await;
    let words =
        "PersistentVolumeClaim \"j-worker-0-scratch\" of pod \"j-worker-0\" is not bound yet";
    assert!(message(&waits).starts_with(words), "{}", message(&waits));
    let refused = Patch::Merge(json!({"metadata": {"annotations": {SELECTED: null}}}));
    let params = PatchParams::default();
    claims(&site).patch(claim, &params, &refused).await.unwrap();
    let again = site.becomes("j", |s| s.attempt == Some(2)).await;
    let failure = again.status.unwrap().last_failure.unwrap();
    assert_eq!(failure.reason, "ClaimNotBound");
    assert_eq!(failure.node.as_ref(), Some(&first));
    let second = asked_for(&site, claim, Some(&first)).await;
    provision(&site, claim, &second, &volume(&site, claim)).await;
    let pods = placed(&site, 1).await;
    assert_eq!(node_of(&pods[0]), second);
    let_go(&site, &pods).await;
    let runs = site.reaches("j", JobPhase::Running).await.status.unwrap();
    assert_eq!((runs.restarts, runs.disruptions), (Some(0), Some(0)));
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
    provision(&site, claim, &node, &volume(&site, claim)).await;
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
    board["membership"] = json!("BestEffort");
    board["command"] = json!(["board"]);
    let groups = job["spec"]["taskGroups"].as_array_mut().unwrap();
    groups[0].as_object_mut().unwrap().remove("podTemplate");
    groups.push(board);
    site.create(job).await.unwrap();
    let claim = "j-board-0-scratch";
    let node = asked_for(&site, claim, None).await;
    provision(&site, claim, &node, &volume(&site, claim)).await;
    let claims = claims(&site);
    eventually(SOON, || async {
        let phase = claims.get(claim).await?.status.and_then(|s| s.phase);
        ensure!(phase.as_deref() == Some("Bound"), "{phase:?}");
        Ok(())
    })
    .await
    .unwrap();
}
