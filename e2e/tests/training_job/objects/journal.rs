//! The PodGroup of a running gang after manual changes.

use std::time::Duration;

use anyhow::ensure;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, names};
use trellis_e2e::site::jobs::{SOON, pod_uids};
use trellis_e2e::wait::eventually;

use crate::create_site;

/// Longest time until a gang has started on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The journal is deleted with the PodGroup. The gang is placed again, and the loss does not count
/// against the job.
#[tokio::test]
async fn deleted_pod_group_counts_as_a_disruption() {
    let site = create_site("nojournal", 2).await;
    let mut job = site.job("j", 2, 8);
    job["spec"]["deadlines"]["startupSeconds"] = json!(START_TIMEOUT.as_secs());
    site.create(job).await.unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
    let before = pod_uids(&site.wait_for_whole_gang("j", 2).await);
    // The gang has run for longer than its startup deadline.
    tokio::time::sleep(START_TIMEOUT).await;
    site.delete::<PodGroup>("j").await;
    let restarted = site.wait_for_running_attempt("j", 2).await;
    let status = restarted.status.unwrap();
    assert_eq!((status.restarts, status.disruptions), (Some(0), Some(1)));
    let failure = status.last_failure.unwrap();
    assert_eq!(
        (failure.reason.as_str(), failure.attempt),
        ("JournalLost", 1)
    );
    assert!(pod_uids(&site.wait_for_whole_gang("j", 2).await).is_disjoint(&before));
}

/// The PodGroup exists, but the operator does not see it for a moment.
#[tokio::test]
async fn pod_group_without_our_label_is_repaired_without_a_restart() {
    let site = create_site("unlabelled", 1).await;
    site.submit("j", 2, 1).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let before = pod_uids(&site.wait_for_whole_gang("j", 2).await);
    let groups = site.api::<PodGroup>();
    let unlabel = json!({"metadata": {"labels": {names::MANAGED_BY: null}}});
    groups
        .patch("j", &PatchParams::default(), &Patch::Merge(&unlabel))
        .await
        .unwrap();
    eventually(SOON, || async {
        let labelled = groups.get("j").await?;
        ensure!(labelled.labels().contains_key(names::MANAGED_BY));
        Ok(())
    })
    .await
    .unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let job = site.wait_for_phase("j", JobPhase::Running).await;
    let status = job.status.unwrap();
    assert_eq!((status.attempt, status.disruptions), (Some(1), Some(0)));
    assert_eq!(pod_uids(&site.wait_for_whole_gang("j", 2).await), before);
}
