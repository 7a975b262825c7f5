//! An Application reports the true state of its jobs in every case.

use anyhow::{Result, ensure};
use serde_json::json;
use trellis_api::job::JobPhase;

use crate::scene::{SOON, Scene, policy, repository, yaml};

const JOB: &str = "TrainingJob/train";

pub(crate) async fn states(scene: &Scene) -> Result<()> {
    let site = scene.site(1).await;
    let mut job = site.job("train", 2, 4);
    job["spec"]["restart"] = json!({"scope": "Never"});
    job["spec"]["suspend"] = json!(true);
    let repository = repository(std::slice::from_ref(&job))?;
    let application = scene.application(&site, &repository);
    let application = scene.argocd.deliver(&application).await?;
    let suspended = application
        .becomes("Suspended", SOON, |s| s.health == "Suspended")
        .await?;
    ensure!(suspended.health_of(JOB) == "Suspended", "{suspended:#?}");

    job["spec"]["suspend"] = json!(false);
    let resumed = repository.commit(&[("all.yaml", &yaml(&[job]))])?;
    application.refresh().await?;
    site.reaches("train", JobPhase::Running).await;
    application
        .becomes("Healthy", SOON, |s| {
            s.health == "Healthy" && s.is_synced(&resumed)
        })
        .await?;

    site.exit("train-worker-0", "3").await;
    let failed = application
        .becomes("Degraded", SOON, |s| s.health == "Degraded")
        .await?;
    // The job has failed but does not differ from git.
    ensure!(failed.sync == "Synced", "{failed:#?}");
    let (_, health, message) = &failed.resources[JOB];
    ensure!(
        health == "Degraded" && message.starts_with("NoRestart: "),
        "{message}"
    );
    ensure!(message.contains("train-worker-0"), "{message}");
    application.delete(SOON).await
}

/// A job that has ended, and is changed in git, stays what it is.
pub(crate) async fn ended(scene: &Scene) -> Result<()> {
    let site = scene.site(1).await;
    let mut jobs = [site.job("ends", 1, 1), site.job("fails", 1, 1)];
    jobs[1]["spec"]["restart"] = json!({"scope": "Never"});
    let repository = repository(&jobs)?;
    let application = scene.application(&site, &repository);
    let application = scene.argocd.deliver(&application).await?;
    for job in ["ends", "fails"] {
        site.reaches(job, JobPhase::Running).await;
    }
    site.exit("ends-worker-0", "0").await;
    site.exit("fails-worker-0", "1").await;
    site.reaches("ends", JobPhase::Complete).await;
    site.reaches("fails", JobPhase::Failed).await;
    for job in &mut jobs {
        job["spec"]["cleanup"] = json!({"childrenTTLSeconds": 5000});
    }
    let changed = repository.commit(&[("all.yaml", &yaml(&jobs))])?;
    application.refresh().await?;
    let state = application
        .becomes("synced", SOON, |s| s.is_synced(&changed))
        .await?;
    ensure!(state.health == "Degraded", "{state:#?}");
    let healths =
        ["ends", "fails"].map(|job| state.health_of(&format!("TrainingJob/{job}")).to_owned());
    ensure!(healths == ["Healthy", "Degraded"], "{healths:?}");
    application.delete(SOON).await
}

/// A job that a policy denies is Degraded with the message of Trellis, and stays Synced. It runs
/// once it is fixed.
pub(crate) async fn refused(scene: &Scene) -> Result<()> {
    let site = scene.site(1).await;
    let mut job = site.job("train", 1, 1);
    let image = job["spec"]["taskGroups"][0]["image"].take();
    job["spec"]["taskGroups"][0]["image"] = json!("elsewhere.example/train:1.0");
    let policy = policy(site.name());
    let repository = repository(&[policy.clone(), job.clone()])?;
    let application = scene.application(&site, &repository);
    let application = scene.argocd.deliver(&application).await?;
    let refused = application
        .becomes("Degraded", SOON, |s| {
            s.health == "Degraded" && s.sync == "Synced"
        })
        .await?;
    let (_, _, message) = &refused.resources[JOB];
    ensure!(message.starts_with("PolicyDenied: "), "{message}");

    job["spec"]["taskGroups"][0]["image"] = image;
    let mended = repository.commit(&[("all.yaml", &yaml(&[policy, job]))])?;
    application.refresh().await?;
    application
        .becomes("Healthy", SOON, |s| {
            s.health == "Healthy" && s.is_synced(&mended)
        })
        .await?;
    application.delete(SOON).await
}
