//! An Application reports the true state of its jobs in every case.

use anyhow::{Result, ensure};
use serde_json::json;
use trellis_api::job::JobPhase;

use crate::fixtures::{GitOpsFixture, SOON, objects_yaml, policy_manifest, repository_with};

const JOB_RESOURCE: &str = "TrainingJob/train";

pub(crate) async fn test_job_states(scene: &GitOpsFixture) -> Result<()> {
    let site = scene.create_site(1).await;
    let mut job = site.job("train", 2, 4);
    job["spec"]["restart"] = json!({"scope": "Never"});
    job["spec"]["suspend"] = json!(true);
    let repository = repository_with(std::slice::from_ref(&job))?;
    let application = scene.application_for(&site, &repository);
    let application = scene.argocd.create_application(&application).await?;
    let suspended = application
        .wait_for_state("Suspended", SOON, |s| s.health == "Suspended")
        .await?;
    ensure!(
        suspended.resource_health(JOB_RESOURCE) == "Suspended",
        "{suspended:#?}"
    );

    job["spec"]["suspend"] = json!(false);
    let resumed = repository.commit_files(&[("all.yaml", &objects_yaml(&[job]))])?;
    application.refresh().await?;
    site.wait_for_phase("train", JobPhase::Running).await;
    application
        .wait_for_state("Healthy", SOON, |s| {
            s.health == "Healthy" && s.is_synced(&resumed)
        })
        .await?;

    site.end_pod("train-worker-0", "3").await;
    let failed = application
        .wait_for_state("Degraded", SOON, |s| s.health == "Degraded")
        .await?;
    // The job has failed but does not differ from git.
    ensure!(failed.sync == "Synced", "{failed:#?}");
    let (_, health, message) = &failed.resources[JOB_RESOURCE];
    ensure!(
        health == "Degraded" && message.starts_with("NoRestart: "),
        "{message}"
    );
    ensure!(message.contains("train-worker-0"), "{message}");
    application.delete(SOON).await
}

/// A job that has ended does not change when git changes.
pub(crate) async fn test_ended_job(scene: &GitOpsFixture) -> Result<()> {
    let site = scene.create_site(1).await;
    let mut jobs = [site.job("ends", 1, 1), site.job("fails", 1, 1)];
    jobs[1]["spec"]["restart"] = json!({"scope": "Never"});
    let repository = repository_with(&jobs)?;
    let application = scene.application_for(&site, &repository);
    let application = scene.argocd.create_application(&application).await?;
    for job in ["ends", "fails"] {
        site.wait_for_phase(job, JobPhase::Running).await;
    }
    site.end_pod("ends-worker-0", "0").await;
    site.end_pod("fails-worker-0", "1").await;
    site.wait_for_phase("ends", JobPhase::Complete).await;
    site.wait_for_phase("fails", JobPhase::Failed).await;
    for job in &mut jobs {
        job["spec"]["cleanup"] = json!({"childrenTTLSeconds": 5000});
    }
    let changed = repository.commit_files(&[("all.yaml", &objects_yaml(&jobs))])?;
    application.refresh().await?;
    let state = application
        .wait_for_state("synced", SOON, |s| s.is_synced(&changed))
        .await?;
    ensure!(state.health == "Degraded", "{state:#?}");
    let healths = ["ends", "fails"].map(|job| {
        state
            .resource_health(&format!("TrainingJob/{job}"))
            .to_owned()
    });
    ensure!(healths == ["Healthy", "Degraded"], "{healths:?}");
    application.delete(SOON).await
}

/// A job that a policy denies is Degraded with the message of Trellis, and stays Synced. It runs
/// after a fix.
pub(crate) async fn test_refused_job(scene: &GitOpsFixture) -> Result<()> {
    let site = scene.create_site(1).await;
    let mut job = site.job("train", 1, 1);
    let image = job["spec"]["taskGroups"][0]["image"].take();
    job["spec"]["taskGroups"][0]["image"] = json!("elsewhere.example/train:1.0");
    let policy = policy_manifest(site.name());
    let repository = repository_with(&[policy.clone(), job.clone()])?;
    let application = scene.application_for(&site, &repository);
    let application = scene.argocd.create_application(&application).await?;
    let refused = application
        .wait_for_state("Degraded", SOON, |s| {
            s.health == "Degraded" && s.sync == "Synced"
        })
        .await?;
    let (_, _, message) = &refused.resources[JOB_RESOURCE];
    ensure!(message.starts_with("PolicyDenied: "), "{message}");

    job["spec"]["taskGroups"][0]["image"] = image;
    let mended = repository.commit_files(&[("all.yaml", &objects_yaml(&[policy, job]))])?;
    application.refresh().await?;
    application
        .wait_for_state("Healthy", SOON, |s| {
            s.health == "Healthy" && s.is_synced(&mended)
        })
        .await?;
    application.delete(SOON).await
}
