//! The operator is killed after the k-th write for a job whose claim is bound with its first pod.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::kubelet::HANG;
use trellis_e2e::operator::{RECOVERY_TIMEOUT, Succession, kill_after_every_write};
use trellis_e2e::proxy::{Request, TrapTiming};
use trellis_e2e::site::TestSite;
use trellis_e2e::volumes::{disk_yaml, late_binding_claim_yaml, late_binding_class_yaml};
use trellis_e2e::wait::eventually;

use super::{KillMoments, counted_write_filter, delete_jobs, is_running, start_succession};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// A volume is cluster-scoped.
fn counted_write_or_volume_filter(
    namespace: &str,
) -> impl Fn(&Request) -> bool + Send + Sync + 'static {
    let counts = counted_write_filter(namespace);
    move |request| {
        counts(request) || (request.is_write() && request.resource == "persistentvolumes")
    }
}

/// The kind of claim.
#[derive(Clone, Copy)]
enum TestedClaim {
    /// An existing claim, which both pods mount.
    Shared,
    /// A claim that is created with the job's pod.
    Ephemeral,
}

impl TestedClaim {
    fn claim_name(self) -> &'static str {
        match self {
            Self::Shared => "data",
            Self::Ephemeral => "j-worker-0-data",
        }
    }

    fn provisioner(self) -> Option<&'static str> {
        match self {
            Self::Shared => None,
            Self::Ephemeral => Some("disks.example"),
        }
    }

    fn pod_count(self) -> u32 {
        match self {
            Self::Shared => 2,
            Self::Ephemeral => 1,
        }
    }
}

async fn survives_kill(
    operators: &mut Succession,
    k: u64,
    moment: TrapTiming,
    which: TestedClaim,
) -> bool {
    let site = TestSite::new(
        &operators.control_plane,
        "claims",
        NodeTemplate::new(2).gpus(8),
    )
    .await;
    let class = site.name();
    let storage_class = late_binding_class_yaml(class, which.provisioner());
    operators
        .control_plane
        .apply_yaml(&storage_class)
        .await
        .unwrap();
    let mut job = site.job("j", which.pod_count(), 1);
    let group = &mut job["spec"]["taskGroups"][0];
    let pod_policy = match which {
        TestedClaim::Shared => {
            let disk = disk_yaml(class, class, &site.nodes().names()[1]);
            let claim = late_binding_claim_yaml(class, "data", class, "ReadWriteOnce", "1Gi");
            for yaml in [disk, claim] {
                operators.control_plane.apply_yaml(&yaml).await.unwrap();
            }
            group["mounts"] = json!([{"claimName": "data", "path": "/data"}]);
            None
        }
        TestedClaim::Ephemeral => {
            let claim_spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": {"requests": {"storage": "1Gi"}}});
            group["podTemplate"] = json!({"spec": {"volumes": [
                {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec}}}]}});
            // A kubelet starts no container before the claim is bound.
            let words = [(HANG, "true")];
            let pod_policy =
                PodPolicy::annotate_for_kubelets(&operators.control_plane, class, &words);
            Some(pod_policy.await.unwrap())
        }
    };
    let fired = operators.kill_after_write(k, moment, counted_write_or_volume_filter(class));
    site.create(job).await.unwrap();
    let volumes: Api<PersistentVolume> = Api::all(operators.control_plane.client());
    let bound = async {
        if pod_policy.is_some() {
            let claims = site.api::<PersistentVolumeClaim>();
            let selection = eventually(RECOVERY_TIMEOUT, || async {
                let claim = claims.get(which.claim_name()).await?;
                let node = claim.annotations().get(SELECTED_NODE).cloned();
                Ok((node.context("no node is selected")?, claim.uid()))
            });
            let selection = selection.await;
            let (node, uid) =
                selection.unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
            let mut volume: Value = serde_json::from_str(&disk_yaml(class, class, &node)).unwrap();
            volume["spec"]["claimRef"] = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": class, "name": which.claim_name(), "uid": uid});
            let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
            volumes
                .create(&PostParams::default(), &volume)
                .await
                .unwrap();
            let bound = eventually(RECOVERY_TIMEOUT, || async {
                let claim = claims.get(which.claim_name()).await?;
                let phase = claim.status.and_then(|status| status.phase);
                ensure!(phase.as_deref() == Some("Bound"), "{phase:?}");
                Ok(())
            });
            let bound = bound.await;
            bound.unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
            site.annotate_pod("j-worker-0", HANG, "false").await;
        }
    };
    let final_status = operators.wait_through_kill(&site, "j", (fired, k, moment), is_running);
    let ((status, reached), ()) = tokio::join!(final_status, bound);
    assert_eq!(
        (status.attempt, status.restarts, status.disruptions),
        (Some(1), Some(0), Some(0)),
        "after write {k} ({moment:?})"
    );
    let gang_check = eventually(RECOVERY_TIMEOUT, || {
        site.check_whole_gang("j", which.pod_count() as usize)
    })
    .await;
    gang_check.unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
    let claims = site.api::<PersistentVolumeClaim>();
    let claim = claims.get(which.claim_name()).await.unwrap();
    let volume = claim.spec.unwrap().volume_name;
    assert_eq!(
        volume.as_deref(),
        Some(class),
        "after write {k} ({moment:?})"
    );
    delete_jobs(&site, &["j"]).await;
    let deletion = volumes.delete(class, &DeleteParams::default()).await;
    deletion.unwrap();
    reached
}

async fn shared_claim_is_bound_after_a_crash_at_each_write(moments: KillMoments) {
    let mut operators = start_succession().await;
    // The writes are 3 children, the journal twice, the volume, the pods and a status.
    let minimum = 3 + 2 + 1 + 2 + 1;
    let check =
        async |k| survives_kill(&mut operators, k, moments.at_write(k), TestedClaim::Shared).await;
    kill_after_every_write(minimum, check).await;
}

async fn ephemeral_claim_is_bound_after_a_crash_at_each_write(moments: KillMoments) {
    let mut operators = start_succession().await;
    // The writes are 3 children, the journal twice, a pod, the node of its claim and a status.
    let minimum = 3 + 2 + 1 + 1 + 1;
    let survives = async |k| {
        survives_kill(
            &mut operators,
            k,
            moments.at_write(k),
            TestedClaim::Ephemeral,
        )
        .await
    };
    kill_after_every_write(minimum, survives).await;
}

at_both_moments!(ephemeral_claim_is_bound_after_a_crash_at_each_write);
at_both_moments!(shared_claim_is_bound_after_a_crash_at_each_write);
