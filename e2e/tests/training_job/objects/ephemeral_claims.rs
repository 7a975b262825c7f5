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
use trellis_e2e::kubelet::HANG;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message};
use trellis_e2e::volumes::{disk_yaml, late_binding_claim_yaml, late_binding_class_yaml};
use trellis_e2e::wait::eventually;

use crate::{create_site, shared_control_plane};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Returns the job "j". Each of its pods has a volume "scratch" with an ephemeral claim of this
/// class.
fn job_with_scratch(site: &TestSite, class: &str, replicas: u32, gpus: u32) -> Value {
    let mut job = site.job("j", replicas, gpus);
    let claim_spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": "1Gi"}}});
    job["spec"]["taskGroups"][0]["podTemplate"] = json!({"spec": {
        "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec}}}],
        "containers": [{"name": "main", "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}],
    }});
    job
}

/// The simulated kubelets hold their pods, like real ones, until the test reports that the volumes
/// exist.
async fn hold_pods(site: &TestSite) -> PodPolicy {
    let control_plane = shared_control_plane().await;
    let words = [(HANG, "true")];
    let policy = PodPolicy::annotate_for_kubelets(control_plane, site.name(), &words);
    policy.await.unwrap()
}

async fn release_pods(site: &TestSite, pods: &[Pod]) {
    for pod in pods {
        site.annotate_pod(&pod.name_any(), HANG, "false").await;
    }
}

async fn apply_yaml(yaml: &str) {
    shared_control_plane().await.apply_yaml(yaml).await.unwrap();
}

fn claims_api(site: &TestSite) -> Api<PersistentVolumeClaim> {
    site.api()
}

/// Waits until a claim requests a volume, and returns the selected node.
async fn wait_for_selected_node(
    site: &TestSite,
    claim: &str,
    excluded_node: Option<&str>,
) -> String {
    let claims = claims_api(site);
    let node = eventually(SOON, || async {
        let claim = claims.get(claim).await?;
        let node = claim.annotations().get(SELECTED_NODE).cloned();
        let node = node.context("no node is selected")?;
        ensure!(Some(&*node) != excluded_node, "still {node}");
        Ok(node)
    });
    node.await.unwrap()
}

/// Acts as the provisioner: creates a volume on the node for a claim.
async fn provision_volume(site: &TestSite, claim: &str, node: &str, volume: &str) {
    let uid = claims_api(site).get(claim).await.unwrap().uid();
    let volume_object = disk_yaml(volume, site.name(), node);
    let mut volume_object: Value = serde_json::from_str(&volume_object).unwrap();
    volume_object["spec"]["claimRef"] = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": site.name(), "name": claim, "uid": uid});
    apply_yaml(&volume_object.to_string()).await;
}

/// Waits until the gang is placed and all its claims are bound.
async fn wait_until_placed(site: &TestSite, pods: usize) -> Vec<Pod> {
    site.wait_for_status("j", |s| s.scheduled_time.is_some())
        .await;
    site.wait_for_whole_gang("j", pods).await
}

fn volume_name(site: &TestSite, claim: &str) -> String {
    format!("{}-{claim}", site.name())
}

fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().node_name.as_deref().unwrap()
}

#[tokio::test]
async fn each_pod_gets_a_volume_on_its_own_node() {
    let site = create_site("scratch", 2).await;
    apply_yaml(&late_binding_class_yaml(site.name(), Some("disks.example"))).await;
    let _held = hold_pods(&site).await;
    site.create(job_with_scratch(&site, site.name(), 2, 8))
        .await
        .unwrap();
    site.wait_for_pod_count("j", 2).await;
    let pods = site.list_pods("j").await;
    for pod in &pods {
        let claim = format!("{}-scratch", pod.name_any());
        let node = wait_for_selected_node(&site, &claim, None).await;
        assert_eq!(node, node_name(pod));
        provision_volume(&site, &claim, &node, &volume_name(&site, &claim)).await;
    }
    let pods = wait_until_placed(&site, 2).await;
    release_pods(&site, &pods).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    // The claims are deleted with their pods.
    site.patch("j", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    let claims = claims_api(&site);
    eventually(SOON, || async {
        let remaining = claims.list(&Default::default()).await?.items.len();
        ensure!(remaining == 0, "{remaining} claims still exist");
        Ok(())
    })
    .await
    .unwrap();
}

/// The operator does not count the existing volumes of a node.
#[tokio::test]
async fn class_without_a_provisioner_is_reported() {
    let site = create_site("no-scratch", 1).await;
    apply_yaml(&late_binding_class_yaml(site.name(), None)).await;
    site.create(job_with_scratch(&site, site.name(), 1, 1))
        .await
        .unwrap();
    let not_bound = |r: Reason| r == Reason::ClaimNotBound;
    let pending = site
        .wait_for_status("j", |s| s.reason.is_some_and(not_bound))
        .await;
    let field = "spec.taskGroups[0].podTemplate.spec.volumes[0].ephemeral.volumeClaimTemplate: ";
    assert!(
        message(&pending).starts_with(field),
        "{}",
        message(&pending)
    );
    assert!(
        message(&pending).contains("provisions none"),
        "{}",
        message(&pending)
    );
    assert!(site.list_pods("j").await.is_empty());
}

/// The pods have the same names as before, and so have their claims.
#[tokio::test]
async fn restarted_gang_gets_new_volumes() {
    let site = create_site("again", 1).await;
    apply_yaml(&late_binding_class_yaml(site.name(), Some("disks.example"))).await;
    let _held = hold_pods(&site).await;
    site.create(job_with_scratch(&site, site.name(), 1, 1))
        .await
        .unwrap();
    let claim = "j-worker-0-scratch";
    let claims = claims_api(&site);
    let mut uids = BTreeSet::new();
    for attempt in 1..=2 {
        let pods = wait_until_placed(&site, 1).await;
        let claim = eventually(SOON, || async {
            let claim = claims.get(claim).await?;
            let owner = claim
                .owner_references()
                .first()
                .map(|owner| owner.uid.clone());
            ensure!(owner == pods[0].uid(), "the claim belongs to another pod");
            ensure!(
                claim.annotations().contains_key(SELECTED_NODE),
                "no node is selected"
            );
            Ok(claim)
        })
        .await
        .unwrap();
        assert!(uids.insert(claim.uid()));
        // The volume of the first claim still exists.
        let volume = format!("{}-{attempt}", site.name());
        provision_volume(&site, "j-worker-0-scratch", node_name(&pods[0]), &volume).await;
        release_pods(&site, &pods).await;
        site.wait_for_running_attempt("j", attempt).await;
        if attempt == 1 {
            site.end_pod("j-worker-0", "1").await;
            site.wait_for_status("j", |s| s.attempt == Some(2)).await;
        }
    }
}

/// A provisioner that cannot create a volume removes the selected node from the claim. The whole
/// gang is placed on other nodes.
#[tokio::test]
async fn gang_moves_when_a_pod_volume_cannot_be_provisioned() {
    let site = create_site("refused-disk", 2).await;
    apply_yaml(&late_binding_class_yaml(site.name(), Some("disks.example"))).await;
    let _held = hold_pods(&site).await;
    site.create(job_with_scratch(&site, site.name(), 1, 1))
        .await
        .unwrap();
    let claim = "j-worker-0-scratch";
    let first = wait_for_selected_node(&site, claim, None).await;
    let not_bound = |r: Reason| r == Reason::ClaimNotBound;
    let pending = site
        .wait_for_status("j", |s| s.reason.is_some_and(not_bound))
        .await;
    let words =
        "PersistentVolumeClaim \"j-worker-0-scratch\" of pod \"j-worker-0\" is not bound yet";
    assert!(
        message(&pending).starts_with(words),
        "{}",
        message(&pending)
    );
    let refused = Patch::Merge(json!({"metadata": {"annotations": {SELECTED_NODE: null}}}));
    let params = PatchParams::default();
    claims_api(&site)
        .patch(claim, &params, &refused)
        .await
        .unwrap();
    let restarted = site.wait_for_status("j", |s| s.attempt == Some(2)).await;
    let failure = restarted.status.unwrap().last_failure.unwrap();
    assert_eq!(failure.reason, "ClaimNotBound");
    assert_eq!(failure.node.as_ref(), Some(&first));
    let second = wait_for_selected_node(&site, claim, Some(&first)).await;
    provision_volume(&site, claim, &second, &volume_name(&site, claim)).await;
    let pods = wait_until_placed(&site, 1).await;
    assert_eq!(node_name(&pods[0]), second);
    release_pods(&site, &pods).await;
    let running = site
        .wait_for_phase("j", JobPhase::Running)
        .await
        .status
        .unwrap();
    assert_eq!((running.restarts, running.disruptions), (Some(0), Some(0)));
}

#[tokio::test]
async fn foreign_claim_is_reported_before_the_gang_starts() {
    let site = create_site("not-mine", 1).await;
    apply_yaml(&late_binding_class_yaml(site.name(), Some("disks.example"))).await;
    let claim = "j-worker-0-scratch";
    apply_yaml(&late_binding_claim_yaml(
        site.name(),
        claim,
        site.name(),
        "ReadWriteOnce",
        "1Gi",
    ))
    .await;
    let _held = hold_pods(&site).await;
    site.create(job_with_scratch(&site, site.name(), 1, 1))
        .await
        .unwrap();
    let is_conflict = |r: Reason| r == Reason::NameConflict;
    let pending = site
        .wait_for_status("j", |s| s.reason.is_some_and(is_conflict))
        .await;
    let words = "is there and is not pod \"j-worker-0\"'s";
    assert!(message(&pending).contains(words), "{}", message(&pending));
    assert!(site.list_pods("j").await.is_empty());
    claims_api(&site)
        .delete(claim, &Default::default())
        .await
        .unwrap();
    let node = wait_for_selected_node(&site, claim, None).await;
    provision_volume(&site, claim, &node, &volume_name(&site, claim)).await;
    release_pods(&site, &wait_until_placed(&site, 1).await).await;
    site.wait_for_phase("j", JobPhase::Running).await;
}

/// A surplus pod is created after the plan of its gang, and so is its claim.
#[tokio::test]
async fn surplus_pod_gets_its_own_volume() {
    let site = create_site("board-scratch", 1).await;
    apply_yaml(&late_binding_class_yaml(site.name(), Some("disks.example"))).await;
    let _held = hold_pods(&site).await;
    let mut job = job_with_scratch(&site, site.name(), 1, 1);
    let mut board = job["spec"]["taskGroups"][0].clone();
    board["name"] = json!("board");
    board["membership"] = json!("BestEffort");
    board["command"] = json!(["board"]);
    let groups = job["spec"]["taskGroups"].as_array_mut().unwrap();
    groups[0].as_object_mut().unwrap().remove("podTemplate");
    groups.push(board);
    site.create(job).await.unwrap();
    let claim = "j-board-0-scratch";
    let node = wait_for_selected_node(&site, claim, None).await;
    provision_volume(&site, claim, &node, &volume_name(&site, claim)).await;
    let claims = claims_api(&site);
    eventually(SOON, || async {
        let phase = claims.get(claim).await?.status.and_then(|s| s.phase);
        ensure!(phase.as_deref() == Some("Bound"), "{phase:?}");
        Ok(())
    })
    .await
    .unwrap();
}
