//! An operator with the CRDs and the status of another version.

use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::site::jobs::{SOON, phase};
use trellis_e2e::wait::eventually;

use crate::create_site;

/// The API server accepts values that this version does not know, and the operator reads them.
#[tokio::test]
async fn unknown_phase_and_reason_of_another_version_are_tolerated() {
    let site = create_site("words", 0).await;
    site.submit("j", 1, 1).await;
    site.wait_for_phase("j", JobPhase::Queued).await;
    let jobs = site.api::<TrainingJob>();
    let words = json!({"status": {"phase": "Parked", "reason": "FromTheFuture"}});
    let written = jobs
        .patch_status("j", &PatchParams::default(), &Patch::Merge(&words))
        .await
        .unwrap();
    assert_eq!(phase(&written), Some(JobPhase::Unrecognized));
    eventually(SOON, || async {
        let now = jobs.get("j").await?;
        anyhow::ensure!(phase(&now) == Some(JobPhase::Queued), "{:?}", now.status);
        Ok(())
    })
    .await
    .unwrap();
    // The job continues normally.
    site.patch("j", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    site.wait_for_phase("j", JobPhase::Suspended).await;
}
