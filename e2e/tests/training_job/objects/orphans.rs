//! Pods that lose their owning job.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, PropagationPolicy};
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;

use crate::create_site;

/// Removes the owner as an administrator can, if no admission policy forbids it.
#[tokio::test]
async fn pod_without_its_owner_reference_counts_and_ends_with_its_job() {
    let site = create_site("disowned", 1).await;
    site.submit("j", 1, 8).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let pod = site.wait_for_whole_gang("j", 1).await[0].name_any();
    let stripped = json!({"metadata": {"ownerReferences": null}});
    let pods = site.api::<Pod>();
    let params = PatchParams::default();
    let patched = pods.patch(&pod, &params, &Patch::Merge(&stripped)).await;
    assert!(patched.unwrap().owner_references().is_empty());
    // The job still holds the node.
    site.submit("next", 1, 8).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    site.wait_for_whole_gang("j", 1).await;
    site.delete::<TrainingJob>("j").await;
    site.wait_for_pod_count("j", 0).await;
    site.wait_for_phase("next", JobPhase::Running).await;
}

#[tokio::test]
async fn pods_are_deleted_with_a_job_deleted_by_cascade_orphan() {
    let site = create_site("orphaned", 1).await;
    site.submit("j", 2, 4).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let orphan = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    let jobs = site.api::<TrainingJob>();
    jobs.delete("j", &orphan).await.unwrap();
    site.wait_for_pod_count("j", 0).await;
    site.submit("next", 1, 8).await;
    site.wait_for_phase("next", JobPhase::Running).await;
}

/// The garbage collector waits for a job with a finalizer.
#[tokio::test]
async fn pods_are_deleted_while_a_finalizer_blocks_their_deleted_job() {
    let site = create_site("kept", 1).await;
    site.submit("j", 1, 8).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let jobs = site.api::<TrainingJob>();
    let params = PatchParams::default();
    let finalizers = |names: serde_json::Value| json!({"metadata": {"finalizers": names}});
    let keep = finalizers(json!(["example.com/keep"]));
    jobs.patch("j", &params, &Patch::Merge(&keep))
        .await
        .unwrap();
    jobs.delete("j", &DeleteParams::background()).await.unwrap();
    site.wait_for_pod_count("j", 0).await;
    let release = finalizers(json!(null));
    jobs.patch("j", &params, &Patch::Merge(&release))
        .await
        .unwrap();
}
