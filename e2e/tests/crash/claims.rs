//! The operator is killed after the k-th write for a job whose claim is bound with its first pod.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::kubelet::HANG;
use trellis_e2e::proxy::{Moment, Request};
use trellis_e2e::site::Site;
use trellis_e2e::volumes::{disk, late_claim, late_class};
use trellis_e2e::wait::eventually;

use super::succession::Succession;
use super::{RECOVERY, counts, every_k, leave, running, sees_through};

const SELECTED: &str = "volume.kubernetes.io/selected-node";

/// A volume is in no namespace.
fn counts_with_volumes(namespace: &str) -> impl Fn(&Request) -> bool + Send + Sync + 'static {
    let counts = counts(namespace);
    move |request| {
        counts(request) || (request.is_write() && request.resource == "persistentvolumes")
    }
}

/// Which claim it is.
#[derive(Clone, Copy)]
enum Claim {
    /// An existing claim, which both pods mount.
    Shared,
    /// A claim that is created with the job's pod.
    Own,
}

impl Claim {
    fn name(self) -> &'static str {
        match self {
            Self::Shared => "data",
            Self::Own => "j-worker-0-data",
        }
    }

    fn provisioner(self) -> Option<&'static str> {
        match self {
            Self::Shared => None,
            Self::Own => Some("disks.example"),
        }
    }

    fn pods(self) -> u32 {
        match self {
            Self::Shared => 2,
            Self::Own => 1,
        }
    }
}

async fn survives(operators: &mut Succession, k: u64, moment: Moment, which: Claim) -> bool {
    let site = Site::new(&operators.control_plane, "claims", Nodes::new(2).gpus(8)).await;
    let class = site.name();
    let late = late_class(class, which.provisioner());
    operators.control_plane.apply_yaml(&late).await.unwrap();
    let mut job = site.job("j", which.pods(), 1);
    let group = &mut job["spec"]["taskGroups"][0];
    let held = match which {
        Claim::Shared => {
            let disk = disk(class, class, &site.nodes().names()[1]);
            let claim = late_claim(class, "data", class, "ReadWriteOnce", "1Gi");
            for yaml in [disk, claim] {
                operators.control_plane.apply_yaml(&yaml).await.unwrap();
            }
            group["mounts"] = json!([{"claimName": "data", "path": "/data"}]);
            None
        }
        Claim::Own => {
            let asked = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": {"requests": {"storage": "1Gi"}}});
            group["podTemplate"] = json!({"spec": {"volumes": [
                {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": asked}}}]}});
            // A kubelet starts nothing before it is bound.
            let words = [(HANG, "true")];
            let held = PodPolicy::tell_kubelets(&operators.control_plane, class, &words);
            Some(held.await.unwrap())
        }
    };
    let fired = operators.kill_after(k, moment, counts_with_volumes(class));
    site.create(job).await.unwrap();
    let volumes: Api<PersistentVolume> = Api::all(operators.control_plane.client());
    let bound = async {
        if held.is_some() {
            let claims = site.api::<PersistentVolumeClaim>();
            let asked = eventually(RECOVERY, || async {
                let claim = claims.get(which.name()).await?;
                let node = claim.annotations().get(SELECTED).cloned();
                Ok((node.context("no node is selected")?, claim.uid()))
            });
            let asked = asked.await;
            let (node, uid) =
                asked.unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
            let mut made: Value = serde_json::from_str(&disk(class, class, &node)).unwrap();
            made["spec"]["claimRef"] = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": class, "name": which.name(), "uid": uid});
            let made: PersistentVolume = serde_json::from_value(made).unwrap();
            volumes.create(&PostParams::default(), &made).await.unwrap();
            let bound = eventually(RECOVERY, || async {
                let claim = claims.get(which.name()).await?;
                let phase = claim.status.and_then(|status| status.phase);
                ensure!(phase.as_deref() == Some("Bound"), "{phase:?}");
                Ok(())
            });
            let bound = bound.await;
            bound.unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
            site.annotate("j-worker-0", HANG, "false").await;
        }
    };
    let seen = sees_through(operators, &site, (fired, k, moment), running);
    let ((status, reached), ()) = tokio::join!(seen, bound);
    assert_eq!(
        (status.attempt, status.restarts, status.disruptions),
        (Some(1), Some(0), Some(0)),
        "after write {k} ({moment:?})"
    );
    let whole = eventually(RECOVERY, || site.try_whole("j", which.pods() as usize)).await;
    whole.unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
    let claims = site.api::<PersistentVolumeClaim>();
    let claim = claims.get(which.name()).await.unwrap();
    let volume = claim.spec.unwrap().volume_name;
    assert_eq!(
        volume.as_deref(),
        Some(class),
        "after write {k} ({moment:?})"
    );
    leave(&site, &["j"]).await;
    let gone = volumes.delete(class, &DeleteParams::default()).await;
    gone.unwrap();
    reached
}

async fn a_claim_is_bound_though_its_operator_is_killed_after_each_write(moment: Moment) {
    let mut operators = Succession::begin().await;
    // 3 children, the journal twice, the volume, the pods, a status.
    let least = 3 + 2 + 1 + 2 + 1;
    let survives = async |k| survives(&mut operators, k, moment, Claim::Shared).await;
    every_k(least, survives).await;
}

async fn a_pods_own_claim_is_bound_though_its_operator_is_killed_after_each_write(moment: Moment) {
    let mut operators = Succession::begin().await;
    // 3 children, the journal twice, a pod, the node of its claim, a status.
    let least = 3 + 2 + 1 + 1 + 1;
    let survives = async |k| survives(&mut operators, k, moment, Claim::Own).await;
    every_k(least, survives).await;
}

at_both_moments!(a_pods_own_claim_is_bound_though_its_operator_is_killed_after_each_write);
at_both_moments!(a_claim_is_bound_though_its_operator_is_killed_after_each_write);
