//! Claims of a class that binds with the first consumer. The controller manager binds existing
//! volumes and provisioned ones.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::{Reason, TrainingJob};
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message};
use trellis_e2e::volumes::{disk_yaml, late_binding_claim_yaml, late_binding_class_yaml};
use trellis_e2e::wait::eventually;

use crate::placement::node_constraints::submit_until_pending;
use crate::{create_site, shared_control_plane};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Creates a StorageClass for the site.
struct LateBindingClass<'a> {
    site: &'a TestSite,
    control_plane: &'static ControlPlane,
}

impl<'a> LateBindingClass<'a> {
    async fn new(site: &'a TestSite, provisioner: Option<&str>) -> Self {
        let control_plane = shared_control_plane().await;
        let class = Self {
            site,
            control_plane,
        };
        class
            .apply_yaml(&late_binding_class_yaml(site.name(), provisioner))
            .await;
        class
    }

    async fn apply_yaml(&self, yaml: &str) {
        self.control_plane.apply_yaml(yaml).await.unwrap();
    }

    async fn create_claim(&self, name: &str, mode: &str, size: &str) {
        let site = self.site.name();
        self.apply_yaml(&late_binding_claim_yaml(site, name, site, mode, size))
            .await;
    }

    /// Creates a volume on the n-th node.
    async fn create_disk(&self, name: &str, node: usize) {
        let name = self.volume_name(name);
        let node = &self.site.nodes().names()[node];
        self.apply_yaml(&disk_yaml(&name, self.site.name(), node))
            .await;
    }

    fn volume_name(&self, name: &str) -> String {
        format!("{}-{name}", self.site.name())
    }

    /// Returns the volume of a claim. None: it is not bound.
    async fn bound_volume(&self, claim: &str) -> Option<String> {
        let claim = self.get_claim(claim).await;
        let is_bound = claim.status?.phase.as_deref() == Some("Bound");
        claim.spec?.volume_name.filter(|_| is_bound)
    }

    async fn get_claim(&self, claim: &str) -> PersistentVolumeClaim {
        let claims = self.site.api::<PersistentVolumeClaim>();
        claims.get(claim).await.unwrap()
    }

    fn volumes_api(&self) -> Api<PersistentVolume> {
        Api::all(self.control_plane.client())
    }

    /// Waits until a claim requests a volume, and returns the selected node.
    async fn wait_for_selected_node(&self, claim: &str, excluded_node: Option<&str>) -> String {
        let claims = self.site.api::<PersistentVolumeClaim>();
        let node = eventually(SOON, || async {
            let claim = claims.get(claim).await?;
            let node = claim.annotations().get(SELECTED_NODE).cloned();
            let node = node.context("no node is selected")?;
            ensure!(Some(&*node) != excluded_node, "still {node}");
            Ok(node)
        });
        node.await.unwrap()
    }

    /// Creates the claim "data" and the job "j", which mounts it. Returns the node for which a
    /// volume is requested.
    async fn submit_and_wait_for_node(&self, replicas: u32, gpus: u32) -> String {
        self.create_claim("data", "ReadWriteOnce", "1Gi").await;
        let job = job_with_mount(self.site, "j", "data", replicas, gpus);
        self.site.create(job).await.unwrap();
        self.wait_for_selected_node("data", None).await
    }

    /// Acts as the provisioner: creates a volume on the node for a claim.
    async fn provision_volume(&self, claim: &str, node: &str) {
        let uid = self.get_claim(claim).await.uid();
        let volume = disk_yaml(&self.volume_name("made"), self.site.name(), node);
        let mut volume: Value = serde_json::from_str(&volume).unwrap();
        volume["spec"]["claimRef"] = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": self.site.name(), "name": claim, "uid": uid});
        self.apply_yaml(&volume.to_string()).await;
    }
}

fn job_with_mount(site: &TestSite, name: &str, claim: &str, replicas: u32, gpus: u32) -> Value {
    let mut job = site.job(name, replicas, gpus);
    job["spec"]["taskGroups"][0]["mounts"] = json!([{"claimName": claim, "path": "/data"}]);
    job
}

fn node_names(pods: &[Pod]) -> BTreeSet<&str> {
    let nodes = pods.iter().map(|p| p.spec.as_ref().unwrap());
    nodes.map(|s| s.node_name.as_deref().unwrap()).collect()
}

async fn wait_for_unbound_claim(site: &TestSite, job: &str) -> TrainingJob {
    site.wait_for_status(job, |s| s.reason == Some(Reason::ClaimNotBound))
        .await
}

/// Waits until the job is queued with this text. The operator may see the job before a volume, and
/// reports another reason until then.
async fn wait_for_unbound_claim_message(site: &TestSite, job: &str, words: &str) {
    site.wait_for_status(job, |s| {
        s.reason == Some(Reason::ClaimNotBound) && s.full_message().contains(words)
    })
    .await;
}

#[tokio::test]
async fn gang_is_placed_at_its_disk_and_the_next_gang_waits() {
    let site = create_site("disk", 4).await;
    let class = LateBindingClass::new(&site, None).await;
    for claim in ["first", "second"] {
        class.create_claim(claim, "ReadWriteMany", "10Gi").await;
    }
    let pending = job_with_mount(&site, "a", "first", 2, 4);
    site.create(pending).await.unwrap();
    let pending = wait_for_unbound_claim(&site, "a").await;
    let words = "spec.taskGroups[0].mounts[0].claimName: PersistentVolumeClaim \"first\" is not bound: no PersistentVolume";
    assert!(
        message(&pending).starts_with(words),
        "{}",
        message(&pending)
    );
    class.create_disk("x", 2).await;
    site.wait_for_phase("a", JobPhase::Running).await;
    let pods = site.wait_for_whole_gang("a", 2).await;
    let third: BTreeSet<_> = [site.nodes().names()[2].as_str()].into();
    assert_eq!(node_names(&pods), third);
    assert_eq!(
        class.bound_volume("first").await,
        Some(class.volume_name("x"))
    );
    // Another claim is bound to the volume.
    let second = job_with_mount(&site, "b", "second", 1, 1);
    site.create(second).await.unwrap();
    wait_for_unbound_claim(&site, "b").await;
    assert!(site.list_pods("b").await.is_empty());
    assert_eq!(class.bound_volume("second").await, None);
    class.create_disk("y", 3).await;
    site.wait_for_phase("b", JobPhase::Running).await;
    let fourth: BTreeSet<_> = [site.nodes().names()[3].as_str()].into();
    assert_eq!(node_names(&site.wait_for_whole_gang("b", 1).await), fourth);
}

/// As many jobs as volumes are created at once. Each job gets its own volume.
#[tokio::test]
async fn simultaneous_jobs_get_one_disk_each() {
    let site = create_site("disks", 3).await;
    let class = LateBindingClass::new(&site, None).await;
    let all = ["a", "b", "c", "d"];
    for (at, name) in all.iter().enumerate() {
        class.create_claim(name, "ReadWriteOnce", "1Gi").await;
        class.create_disk(name, at % 2).await;
    }
    for name in all {
        site.create(job_with_mount(&site, name, name, 1, 1))
            .await
            .unwrap();
    }
    let mut bound = BTreeSet::new();
    for name in all {
        site.wait_for_phase(name, JobPhase::Running).await;
        bound.insert(class.bound_volume(name).await.unwrap());
    }
    assert_eq!(bound.len(), all.len());
}

#[tokio::test]
async fn oversized_claim_waits_and_deleted_disk_is_not_used() {
    let site = create_site("large", 2).await;
    let class = LateBindingClass::new(&site, None).await;
    class.create_claim("large", "ReadWriteOnce", "11Gi").await;
    class.create_claim("data", "ReadWriteOnce", "10Gi").await;
    class.create_disk("x", 1).await;
    site.create(job_with_mount(&site, "l", "large", 1, 1))
        .await
        .unwrap();
    wait_for_unbound_claim_message(&site, "l", "that has 11Gi").await;
    // The node of the volume has no free GPUs, and later the volume is in use.
    let node = &site.nodes().names()[1];
    site.nodes().cordon(node).await.unwrap();
    // The operator knows the taint when it excludes a job without a volume from the node.
    let mut probe = site.job("", 1, 1);
    let group = &mut probe["spec"]["taskGroups"][0];
    group["nodeSelector"]["kubernetes.io/hostname"] = node.as_str().into();
    let probe = submit_until_pending(&site, &probe).await.name_any();
    site.delete::<TrainingJob>(&probe).await;
    site.create(job_with_mount(&site, "d", "data", 1, 1))
        .await
        .unwrap();
    site.wait_until_queued_for("d", Reason::NoMatchingNodes)
        .await;
    let (volumes, now) = (class.volumes_api(), DeleteParams::default());
    volumes.delete(&class.volume_name("x"), &now).await.unwrap();
    wait_for_unbound_claim(&site, "d").await;
    class.create_disk("y", 0).await;
    site.wait_for_phase("d", JobPhase::Running).await;
    assert_eq!(
        class.bound_volume("data").await,
        Some(class.volume_name("y"))
    );
}

/// Two nodes have a volume each, and no volume is reachable from both. A gang of two pods is not
/// placed there.
#[tokio::test]
async fn gang_is_not_placed_on_nodes_without_a_shared_disk() {
    let site = create_site("apart", 2).await;
    let class = LateBindingClass::new(&site, None).await;
    class.create_claim("data", "ReadWriteMany", "1Gi").await;
    class.create_disk("x", 0).await;
    class.create_disk("y", 1).await;
    site.create(job_with_mount(&site, "j", "data", 2, 8))
        .await
        .unwrap();
    let words = "no volume that it may have is reached from all 2 of its pods' nodes";
    wait_for_unbound_claim_message(&site, "j", words).await;
    assert!(site.list_pods("j").await.is_empty());
    for disk in ["x", "y"] {
        let volume = class
            .volumes_api()
            .get(&class.volume_name(disk))
            .await
            .unwrap();
        assert!(volume.spec.unwrap().claim_ref.is_none(), "{disk}");
    }
}

#[tokio::test]
async fn volume_is_provisioned_on_the_node_of_the_gang() {
    let site = create_site("made", 2).await;
    let class = LateBindingClass::new(&site, Some("disks.example")).await;
    let node = class.submit_and_wait_for_node(2, 2).await;
    assert!(
        site.list_pods("j").await.is_empty(),
        "pods exist before their claim is bound"
    );
    class.provision_volume("data", &node).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    assert_eq!(
        node_names(&site.wait_for_whole_gang("j", 2).await),
        [&*node].into()
    );
    assert_eq!(
        class.bound_volume("data").await,
        Some(class.volume_name("made"))
    );
}

/// A provisioner that cannot create a volume removes the selected node from the claim.
#[tokio::test]
async fn gang_moves_when_its_volume_cannot_be_provisioned() {
    let site = create_site("refused", 2).await;
    let class = LateBindingClass::new(&site, Some("disks.example")).await;
    let first = class.submit_and_wait_for_node(1, 1).await;
    let refused = Patch::Merge(json!({"metadata": {"annotations": {SELECTED_NODE: null}}}));
    site.api::<PersistentVolumeClaim>()
        .patch("data", &PatchParams::default(), &refused)
        .await
        .unwrap();
    let words = format!("no volume could be provisioned for node {first:?}");
    wait_for_unbound_claim_message(&site, "j", &words).await;
    let second = class.wait_for_selected_node("data", Some(&first)).await;
    class.provision_volume("data", &second).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    assert_eq!(
        node_names(&site.wait_for_whole_gang("j", 1).await),
        [&*second].into()
    );
}

/// A gang that is suspended while its volume is being provisioned releases the node.
#[tokio::test]
async fn suspended_gang_clears_the_selected_node_of_its_unbound_claim() {
    let site = create_site("stopped", 1).await;
    let class = LateBindingClass::new(&site, Some("disks.example")).await;
    class.submit_and_wait_for_node(1, 1).await;
    let suspend = |suspend: bool| json!({"spec": {"suspend": suspend}});
    site.patch("j", suspend(true)).await.unwrap();
    let claims = site.api::<PersistentVolumeClaim>();
    eventually(SOON, || async {
        let claim = claims.get("data").await?;
        let annotations = claim.annotations();
        let own_annotations = [SELECTED_NODE, trellis_api::names::PLAN];
        let remaining = own_annotations
            .iter()
            .find(|key| annotations.contains_key(**key));
        ensure!(
            remaining.is_none(),
            "the annotation {remaining:?} still exists"
        );
        Ok(())
    })
    .await
    .unwrap();
    site.patch("j", suspend(false)).await.unwrap();
    let node = class.wait_for_selected_node("data", None).await;
    class.provision_volume("data", &node).await;
    site.wait_for_phase("j", JobPhase::Running).await;
}

/// The gang would fit into the free halves of two nodes, but a claim of one node excludes this.
#[tokio::test]
async fn read_write_once_claim_keeps_its_pods_on_one_node() {
    let site = create_site("together", 3).await;
    let class = LateBindingClass::new(&site, Some("disks.example")).await;
    for (at, name) in ["x", "y"].iter().enumerate() {
        let mut job = site.job(name, 1, 5);
        let node = &site.nodes().names()[at];
        let group = &mut job["spec"]["taskGroups"][0];
        group["nodeSelector"]["kubernetes.io/hostname"] = node.as_str().into();
        site.create(job).await.unwrap();
        site.wait_for_phase(name, JobPhase::Running).await;
    }
    let node = class.submit_and_wait_for_node(2, 3).await;
    assert_eq!(node, site.nodes().names()[2]);
    class.provision_volume("data", &node).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    assert_eq!(
        node_names(&site.wait_for_whole_gang("j", 2).await),
        [&*node].into()
    );
    class.create_claim("wide", "ReadWriteOnce", "1Gi").await;
    site.create(job_with_mount(&site, "w", "wide", 2, 8))
        .await
        .unwrap();
    let pending = site
        .wait_until_queued_for("w", Reason::ExceedsTopology)
        .await;
    let status_message = message(&pending);
    assert!(
        status_message.contains("2 pods must be on one node"),
        "{status_message}"
    );
    let reason = "PersistentVolumeClaim \"wide\", which is ReadWriteOnce and not bound yet";
    assert!(status_message.contains(reason), "{status_message}");
}

/// The claim of best-effort pods is bound for the first pod, and the other pods are placed where
/// the volume is reachable.
#[tokio::test]
async fn claim_of_best_effort_pods_is_bound_for_the_first_pod() {
    let site = create_site("boards", 2).await;
    let class = LateBindingClass::new(&site, None).await;
    class.create_claim("logs", "ReadWriteMany", "1Gi").await;
    let mut job = site.job("j", 1, 1);
    let mut board = job["spec"]["taskGroups"][0].clone();
    board["name"] = json!("board");
    board["membership"] = json!("BestEffort");
    board["replicas"] = json!(2);
    board["mounts"] = json!([{"claimName": "logs", "path": "/logs"}]);
    board["command"] = json!(["board"]);
    job["spec"]["taskGroups"]
        .as_array_mut()
        .unwrap()
        .push(board);
    for disk in [0, 1] {
        class.create_disk(&format!("of-{disk}"), disk).await;
    }
    site.create(job).await.unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
    site.wait_for_pod_count("j", 3).await;
    let volume = class.bound_volume("logs").await.unwrap();
    let disk = usize::from(volume == class.volume_name("of-1"));
    let pods = site.list_pods("j").await;
    let boards = pods.into_iter().filter(|p| p.name_any().contains("board"));
    let boards: Vec<_> = boards.collect();
    assert_eq!(node_names(&boards), [&*site.nodes().names()[disk]].into());
}
