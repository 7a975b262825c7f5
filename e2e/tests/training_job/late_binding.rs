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
use trellis_e2e::jobs::{SOON, message};
use trellis_e2e::site::Site;
use trellis_e2e::volumes::{disk, late_claim, late_class};
use trellis_e2e::wait::eventually;

use super::nodes::held;
use super::{shared, site};

const SELECTED: &str = "volume.kubernetes.io/selected-node";

/// A class of the site's own.
struct Class<'a> {
    site: &'a Site,
    control_plane: &'static ControlPlane,
}

impl<'a> Class<'a> {
    async fn new(site: &'a Site, provisioner: Option<&str>) -> Self {
        let control_plane = shared().await;
        let class = Self {
            site,
            control_plane,
        };
        class.apply(&late_class(site.name(), provisioner)).await;
        class
    }

    async fn apply(&self, yaml: &str) {
        self.control_plane.apply_yaml(yaml).await.unwrap();
    }

    async fn claim(&self, name: &str, mode: &str, size: &str) {
        let site = self.site.name();
        self.apply(&late_claim(site, name, site, mode, size)).await;
    }

    /// A disk of the n-th node.
    async fn disk(&self, name: &str, node: usize) {
        let name = self.volume(name);
        let node = &self.site.nodes().names()[node];
        self.apply(&disk(&name, self.site.name(), node)).await;
    }

    fn volume(&self, name: &str) -> String {
        format!("{}-{name}", self.site.name())
    }

    /// The volume that a claim has. None: it is not bound.
    async fn bound_to(&self, claim: &str) -> Option<String> {
        let claim = self.get(claim).await;
        let is_bound = claim.status?.phase.as_deref() == Some("Bound");
        claim.spec?.volume_name.filter(|_| is_bound)
    }

    async fn get(&self, claim: &str) -> PersistentVolumeClaim {
        let claims = self.site.api::<PersistentVolumeClaim>();
        claims.get(claim).await.unwrap()
    }

    fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.control_plane.client())
    }

    /// Waits until a volume is asked for, and says for which node.
    async fn asked_for(&self, claim: &str, not: Option<&str>) -> String {
        let claims = self.site.api::<PersistentVolumeClaim>();
        let node = eventually(SOON, || async {
            let claim = claims.get(claim).await?;
            let node = claim.annotations().get(SELECTED).cloned();
            let node = node.context("no node is selected")?;
            ensure!(Some(&*node) != not, "still {node}");
            Ok(node)
        });
        node.await.unwrap()
    }

    /// The job "j" mounts the claim "data"; both come now. Says for which node a volume is asked.
    async fn asked_by_job(&self, replicas: u32, gpus: u32) -> String {
        self.claim("data", "ReadWriteOnce", "1Gi").await;
        let job = mounts(self.site, "j", "data", replicas, gpus);
        self.site.create(job).await.unwrap();
        self.asked_for("data", None).await
    }

    /// Acts as the provisioner: creates a disk on the node for a claim.
    async fn provision(&self, claim: &str, node: &str) {
        let uid = self.get(claim).await.uid();
        let made = disk(&self.volume("made"), self.site.name(), node);
        let mut made: Value = serde_json::from_str(&made).unwrap();
        made["spec"]["claimRef"] = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": self.site.name(), "name": claim, "uid": uid});
        self.apply(&made.to_string()).await;
    }
}

fn mounts(site: &Site, name: &str, claim: &str, replicas: u32, gpus: u32) -> Value {
    let mut job = site.job(name, replicas, gpus);
    job["spec"]["taskGroups"][0]["mounts"] = json!([{"claimName": claim, "path": "/data"}]);
    job
}

fn nodes_of(pods: &[Pod]) -> BTreeSet<&str> {
    let nodes = pods.iter().map(|p| p.spec.as_ref().unwrap());
    nodes.map(|s| s.node_name.as_deref().unwrap()).collect()
}

async fn not_bound(site: &Site, job: &str) -> TrainingJob {
    site.becomes(job, |s| s.reason == Some(Reason::ClaimNotBound))
        .await
}

/// The same, with these words. The operator may see the job before a volume, and reports another
/// reason until then.
async fn not_bound_since(site: &Site, job: &str, words: &str) {
    site.becomes(job, |s| {
        s.reason == Some(Reason::ClaimNotBound) && s.full_message().contains(words)
    })
    .await;
}

#[tokio::test]
async fn a_gang_goes_where_its_disk_is_and_the_next_one_waits_for_another() {
    let site = site("disk", 4).await;
    let class = Class::new(&site, None).await;
    for claim in ["first", "second"] {
        class.claim(claim, "ReadWriteMany", "10Gi").await;
    }
    let waits = mounts(&site, "a", "first", 2, 4);
    site.create(waits).await.unwrap();
    let waits = not_bound(&site, "a").await;
    let words = "spec.taskGroups[0].mounts[0].claimName: PersistentVolumeClaim \"first\" is not bound: no PersistentVolume";
    assert!(message(&waits).starts_with(words), "{}", message(&waits));
    class.disk("x", 2).await;
    site.reaches("a", JobPhase::Running).await;
    let pods = site.whole("a", 2).await;
    let third: BTreeSet<_> = [site.nodes().names()[2].as_str()].into();
    assert_eq!(nodes_of(&pods), third);
    assert_eq!(class.bound_to("first").await, Some(class.volume("x")));
    // The disk is taken.
    let second = mounts(&site, "b", "second", 1, 1);
    site.create(second).await.unwrap();
    not_bound(&site, "b").await;
    assert!(site.pods("b").await.is_empty());
    assert_eq!(class.bound_to("second").await, None);
    class.disk("y", 3).await;
    site.reaches("b", JobPhase::Running).await;
    let fourth: BTreeSet<_> = [site.nodes().names()[3].as_str()].into();
    assert_eq!(nodes_of(&site.whole("b", 1).await), fourth);
}

/// As many jobs as disks, all at once: none is left without, and no disk has two.
#[tokio::test]
async fn jobs_that_come_together_have_a_disk_each() {
    let site = site("disks", 3).await;
    let class = Class::new(&site, None).await;
    let all = ["a", "b", "c", "d"];
    for (at, name) in all.iter().enumerate() {
        class.claim(name, "ReadWriteOnce", "1Gi").await;
        class.disk(name, at % 2).await;
    }
    for name in all {
        site.create(mounts(&site, name, name, 1, 1)).await.unwrap();
    }
    let mut bound = BTreeSet::new();
    for name in all {
        site.reaches(name, JobPhase::Running).await;
        bound.insert(class.bound_to(name).await.unwrap());
    }
    assert_eq!(bound.len(), all.len());
}

#[tokio::test]
async fn a_claim_that_is_too_large_waits_and_a_disk_that_goes_is_not_counted_on() {
    let site = site("large", 2).await;
    let class = Class::new(&site, None).await;
    class.claim("large", "ReadWriteOnce", "11Gi").await;
    class.claim("data", "ReadWriteOnce", "10Gi").await;
    class.disk("x", 1).await;
    site.create(mounts(&site, "l", "large", 1, 1))
        .await
        .unwrap();
    not_bound_since(&site, "l", "that has 11Gi").await;
    // There is no room beside its disk, and then there is no disk.
    let node = &site.nodes().names()[1];
    site.nodes().cordon(node).await.unwrap();
    // The operator has read that once it keeps a job off that needs no disk.
    let mut probe = site.job("", 1, 1);
    let group = &mut probe["spec"]["taskGroups"][0];
    group["nodeSelector"]["kubernetes.io/hostname"] = node.as_str().into();
    let probe = held(&site, &probe).await.name_any();
    site.delete::<TrainingJob>(&probe).await;
    site.create(mounts(&site, "d", "data", 1, 1)).await.unwrap();
    site.waits_for("d", Reason::NoMatchingNodes).await;
    let (volumes, now) = (class.volumes(), DeleteParams::default());
    volumes.delete(&class.volume("x"), &now).await.unwrap();
    not_bound(&site, "d").await;
    class.disk("y", 0).await;
    site.reaches("d", JobPhase::Running).await;
    assert_eq!(class.bound_to("data").await, Some(class.volume("y")));
}

/// Two pods, a disk on each of two nodes, and no disk that both reach: the gang is not begun there.
#[tokio::test]
async fn a_gang_whose_nodes_share_no_disk_is_not_begun_there() {
    let site = site("apart", 2).await;
    let class = Class::new(&site, None).await;
    class.claim("data", "ReadWriteMany", "1Gi").await;
    class.disk("x", 0).await;
    class.disk("y", 1).await;
    site.create(mounts(&site, "j", "data", 2, 8)).await.unwrap();
    let words = "no volume that it may have is reached from all 2 of its pods' nodes";
    not_bound_since(&site, "j", words).await;
    assert!(site.pods("j").await.is_empty());
    for disk in ["x", "y"] {
        let volume = class.volumes().get(&class.volume(disk)).await.unwrap();
        assert!(volume.spec.unwrap().claim_ref.is_none(), "{disk}");
    }
}

#[tokio::test]
async fn a_volume_is_provisioned_where_the_gang_goes() {
    let site = site("made", 2).await;
    let class = Class::new(&site, Some("disks.example")).await;
    let node = class.asked_by_job(2, 2).await;
    assert!(
        site.pods("j").await.is_empty(),
        "before their claim is bound"
    );
    class.provision("data", &node).await;
    site.reaches("j", JobPhase::Running).await;
    assert_eq!(nodes_of(&site.whole("j", 2).await), [&*node].into());
    assert_eq!(class.bound_to("data").await, Some(class.volume("made")));
}

/// A provisioner that cannot takes the selected node away again.
#[tokio::test]
async fn where_a_volume_cannot_be_provisioned_the_gang_goes_elsewhere() {
    let site = site("refused", 2).await;
    let class = Class::new(&site, Some("disks.example")).await;
    let first = class.asked_by_job(1, 1).await;
    let refused = Patch::Merge(json!({"metadata": {"annotations": {SELECTED: null}}}));
    site.api::<PersistentVolumeClaim>()
        .patch("data", &PatchParams::default(), &refused)
        .await
        .unwrap();
    let words = format!("no volume could be provisioned for node {first:?}");
    not_bound_since(&site, "j", &words).await;
    let second = class.asked_for("data", Some(&first)).await;
    class.provision("data", &second).await;
    site.reaches("j", JobPhase::Running).await;
    assert_eq!(nodes_of(&site.whole("j", 1).await), [&*second].into());
}

/// A gang that is suspended while its volume is being provisioned gives the node back.
#[tokio::test]
async fn a_gang_that_is_suspended_before_its_claim_is_bound_leaves_nothing_selected() {
    let site = site("stopped", 1).await;
    let class = Class::new(&site, Some("disks.example")).await;
    class.asked_by_job(1, 1).await;
    let suspend = |suspend: bool| json!({"spec": {"suspend": suspend}});
    site.patch("j", suspend(true)).await.unwrap();
    let claims = site.api::<PersistentVolumeClaim>();
    eventually(SOON, || async {
        let claim = claims.get("data").await?;
        let annotations = claim.annotations();
        let ours = [SELECTED, trellis_api::names::PLAN];
        let left = ours.iter().find(|key| annotations.contains_key(**key));
        ensure!(left.is_none(), "{left:?} is still there");
        Ok(())
    })
    .await
    .unwrap();
    site.patch("j", suspend(false)).await.unwrap();
    let node = class.asked_for("data", None).await;
    class.provision("data", &node).await;
    site.reaches("j", JobPhase::Running).await;
}

/// The free halves of two nodes would be packed full, and a claim of one node keeps the gang off.
#[tokio::test]
async fn a_claim_of_one_node_keeps_its_pods_together() {
    let site = site("together", 3).await;
    let class = Class::new(&site, Some("disks.example")).await;
    for (at, name) in ["x", "y"].iter().enumerate() {
        let mut job = site.job(name, 1, 5);
        let node = &site.nodes().names()[at];
        let group = &mut job["spec"]["taskGroups"][0];
        group["nodeSelector"]["kubernetes.io/hostname"] = node.as_str().into();
        site.create(job).await.unwrap();
        site.reaches(name, JobPhase::Running).await;
    }
    let node = class.asked_by_job(2, 3).await;
    assert_eq!(node, site.nodes().names()[2]);
    class.provision("data", &node).await;
    site.reaches("j", JobPhase::Running).await;
    assert_eq!(nodes_of(&site.whole("j", 2).await), [&*node].into());
    class.claim("wide", "ReadWriteOnce", "1Gi").await;
    site.create(mounts(&site, "w", "wide", 2, 8)).await.unwrap();
    let waits = site.waits_for("w", Reason::ExceedsTopology).await;
    let said = message(&waits);
    assert!(said.contains("2 pods must be on one node"), "{said}");
    let why = "PersistentVolumeClaim \"wide\", which is ReadWriteOnce and not bound yet";
    assert!(said.contains(why), "{said}");
}

/// The claim of best-effort pods is bound for the first of them, and the others follow the volume.
#[tokio::test]
async fn a_claim_of_pods_beyond_a_gang_is_bound_for_the_first_of_them() {
    let site = site("boards", 2).await;
    let class = Class::new(&site, None).await;
    class.claim("logs", "ReadWriteMany", "1Gi").await;
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
        class.disk(&format!("of-{disk}"), disk).await;
    }
    site.create(job).await.unwrap();
    site.reaches("j", JobPhase::Running).await;
    site.pods_become("j", 3).await;
    let volume = class.bound_to("logs").await.unwrap();
    let disk = usize::from(volume == class.volume("of-1"));
    let pods = site.pods("j").await;
    let boards = pods.into_iter().filter(|p| p.name_any().contains("board"));
    let boards: Vec<_> = boards.collect();
    assert_eq!(nodes_of(&boards), [&*site.nodes().names()[disk]].into());
}
