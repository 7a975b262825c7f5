//! The Job controller, which creates and deletes the placeholders.

use anyhow::ensure;
use k8s_openapi::api::batch::v1::Job;
use kube::api::DeleteParams;
use trellis_e2e::wait::{eventually, wait_for};

use crate::fixtures::{AutoscaledSite, JOB, SOON};
use crate::shared_control_plane;

/// Placeholders of each test.
const COUNT: usize = 3;

#[tokio::test]
async fn deadline_of_a_job_deletes_its_placeholders() {
    let site = AutoscaledSite::new(shared_control_plane().await, "deadline", |pool| pool).await;
    site.create_placeholders(COUNT, 10).await;
    site.mark_unschedulable().await;
    assert_eq!(failure_reason(&site).await, "DeadlineExceeded");
    site.wait_until_no_pods().await;
    assert_eq!(site.history.uids_by_name().len(), COUNT);
}

#[tokio::test]
async fn deleted_placeholder_ends_its_job_with_all_placeholders() {
    let site = AutoscaledSite::new(shared_control_plane().await, "lone", |pool| pool).await;
    site.create_placeholders(COUNT, 600).await;
    let first = site.pod_names().await.remove(0);
    let deletion = DeleteParams::default();
    site.pods().delete(&first, &deletion).await.unwrap();
    assert_eq!(failure_reason(&site).await, "BackoffLimitExceeded");
    site.wait_until_no_pods().await;
    assert_eq!(site.history.uids_by_name().len(), COUNT);
}

#[tokio::test]
async fn placeholders_of_a_deleted_job_are_not_created_again() {
    let site = AutoscaledSite::new(shared_control_plane().await, "withdraw", |pool| pool).await;
    site.create_placeholders(COUNT, 600).await;
    site.mark_unschedulable().await;
    site.withdraw_placeholders().await;
    // The Job controller has seen the deletion when it serves a later Job.
    site.create_placeholders(1, 600).await;
    // The watch of the history may be behind.
    eventually(SOON, || async {
        let pods = site.history.uids_by_name().len();
        ensure!(pods == COUNT + 1, "{pods} placeholders");
        Ok(())
    })
    .await
    .unwrap();
}

/// Waits until the Job has failed, and returns the reason.
async fn failure_reason(site: &AutoscaledSite) -> String {
    let reason = |job: &Job| {
        let conditions = job.status.as_ref()?.conditions.as_ref()?;
        let failed = conditions
            .iter()
            .find(|c| c.type_ == "Failed" && c.status == "True")?;
        failed.reason.clone()
    };
    let jobs = site.jobs();
    let failed = wait_for(&jobs, JOB, SOON, |job: &Job| reason(job).is_some());
    reason(&failed.await.unwrap()).unwrap_or_default()
}
