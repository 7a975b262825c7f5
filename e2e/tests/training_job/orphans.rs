//! Pods that lose the job that owns them.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, PropagationPolicy};
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;

use super::site;

/// As an administrator does it where no admission policy is in the way.
#[tokio::test]
async fn pod_whose_owner_is_patched_away_counts_and_ends_with_its_job() {
    let site = site("disowned", 1).await;
    site.submit("j", 1, 8).await;
    site.reaches("j", JobPhase::Running).await;
    let pod = site.whole("j", 1).await[0].name_any();
    let stripped = json!({"metadata": {"ownerReferences": null}});
    let pods = site.api::<Pod>();
    let params = PatchParams::default();
    let patched = pods.patch(&pod, &params, &Patch::Merge(&stripped)).await;
    assert!(patched.unwrap().owner_references().is_empty());
    // The node is the job's still.
    site.submit("next", 1, 8).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    site.whole("j", 1).await;
    site.delete::<TrainingJob>("j").await;
    site.pods_become("j", 0).await;
    site.reaches("next", JobPhase::Running).await;
}

#[tokio::test]
async fn pods_end_with_a_job_that_is_deleted_with_cascade_orphan() {
    let site = site("orphaned", 1).await;
    site.submit("j", 2, 4).await;
    site.reaches("j", JobPhase::Running).await;
    let orphan = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    let jobs = site.api::<TrainingJob>();
    jobs.delete("j", &orphan).await.unwrap();
    site.pods_become("j", 0).await;
    site.submit("next", 1, 8).await;
    site.reaches("next", JobPhase::Running).await;
}

/// The garbage collector waits for a job that a finalizer keeps.
#[tokio::test]
async fn pods_end_with_a_deleted_job_that_a_finalizer_keeps() {
    let site = site("kept", 1).await;
    site.submit("j", 1, 8).await;
    site.reaches("j", JobPhase::Running).await;
    let jobs = site.api::<TrainingJob>();
    let params = PatchParams::default();
    let finalizers = |names: serde_json::Value| json!({"metadata": {"finalizers": names}});
    let keep = finalizers(json!(["example.com/keep"]));
    jobs.patch("j", &params, &Patch::Merge(&keep))
        .await
        .unwrap();
    jobs.delete("j", &DeleteParams::background()).await.unwrap();
    site.pods_become("j", 0).await;
    let release = finalizers(json!(null));
    jobs.patch("j", &params, &Patch::Merge(&release))
        .await
        .unwrap();
}
