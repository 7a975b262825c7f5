//! TrainingJobs as hooks: a sync waits for their end.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::argocd::ApplicationState;
use trellis_e2e::site::TestSite;
use trellis_e2e::wait::wait_for;

use crate::fixtures::{GitOpsFixture, SOON, objects_yaml, repository_with, with_annotation};

const HOOK_RESOURCE: &str = "TrainingJob/prepare";

/// Returns a job that runs before the other objects of each sync, and these objects.
fn hook_and_rest(site: &TestSite, version: &str) -> [Value; 2] {
    let mut hook = site.job("prepare", 1, 1);
    hook["spec"]["restart"] = json!({"scope": "Never"});
    let data = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "data"}, "data": {"version": version}});
    [
        with_annotation(hook, "argocd.argoproj.io/hook", "PreSync"),
        data,
    ]
}

pub(crate) async fn test_hook_wait(scene: &GitOpsFixture) -> Result<()> {
    let site = scene.create_site(1).await;
    let repository = repository_with(&hook_and_rest(&site, "1"))?;
    let application = scene.application_for(&site, &repository);
    let application = scene.argocd.create_application(&application).await?;
    site.wait_for_phase("prepare", JobPhase::Running).await;
    let data = site.api::<ConfigMap>();
    // Long enough for several comparisons of Argo CD.
    for _ in 0..5 {
        sleep(Duration::from_secs(1)).await;
        application.refresh().await?;
        ensure!(
            data.get_opt("data").await?.is_none(),
            "the sync did not wait for the hook"
        );
    }
    application
        .wait_for_state("waiting", SOON, |s| {
            let result = s.results.get(HOOK_RESOURCE);
            let is_waiting = result.is_some_and(|(phase, result_message)| {
                phase == "Running" && result_message.starts_with("Running: ")
            });
            is_waiting && s.operation.0 == "Running"
        })
        .await?;
    ensure!(
        data.get_opt("data").await?.is_none(),
        "the sync did not wait for the hook"
    );

    let job_end = async {
        site.end_pod("prepare-worker-0", "0").await;
        anyhow::Ok(())
    };
    let is_done = |s: &ApplicationState| s.sync == "Synced" && s.operation.0 == "Succeeded";
    let (history, ()) = tokio::try_join!(application.record_states(is_done), job_end)?;
    // After the sync, a sync of self-heal may have replaced its results.
    let succeeded = |s: &ApplicationState| {
        let result = s.results.get(HOOK_RESOURCE);
        result.is_some_and(|(phase, result_message)| {
            phase == "Succeeded" && result_message.starts_with("Complete: ")
        })
    };
    ensure!(history.iter().any(succeeded), "{history:#?}");
    let synced = application
        .wait_for_state("Healthy", SOON, |s| s.health == "Healthy")
        .await?;
    ensure!(
        data.get_opt("data").await?.is_some(),
        "the sync has not continued"
    );
    // The Application shows the hook, but the hook does not count for its state.
    let shown_hook = synced.resources.get(HOOK_RESOURCE);
    let counts = shown_hook.is_some_and(|(sync, health, _)| !sync.is_empty() || !health.is_empty());
    ensure!(!counts, "{synced:#?}");

    // Self-heal reverts the change and does not run the hook again.
    let hook = site.api::<TrainingJob>().get("prepare").await?.metadata.uid;
    let by_hand = Patch::Merge(json!({"data": {"version": "by hand"}}));
    data.patch("data", &PatchParams::default(), &by_hand)
        .await?;
    let is_back = |map: &ConfigMap| map.data.as_ref().is_some_and(|data| data["version"] == "1");
    wait_for(&data, "data", SOON, is_back).await?;
    sleep(Duration::from_secs(2)).await;
    let now = site.api::<TrainingJob>().get("prepare").await?.metadata.uid;
    ensure!(now == hook, "the hook has run again");
    application.delete(SOON).await
}

pub(crate) async fn test_hook_failure(scene: &GitOpsFixture) -> Result<()> {
    let site = scene.create_site(1).await;
    let repository = repository_with(&hook_and_rest(&site, "1"))?;
    let application = scene.application_for(&site, &repository);
    let application = scene.argocd.create_application(&application).await?;
    site.wait_for_phase("prepare", JobPhase::Running).await;
    site.end_pod("prepare-worker-0", "0").await;
    application
        .wait_for_state("synced", SOON, |s| {
            s.sync == "Synced" && s.operation.0 == "Succeeded"
        })
        .await?;
    let api = site.api::<TrainingJob>();
    let first = api.get("prepare").await?.metadata.uid;

    // The next sync creates a new hook.
    let next =
        repository.commit_files(&[("all.yaml", &objects_yaml(&hook_and_rest(&site, "2")))])?;
    application.refresh().await?;
    wait_for(&api, "prepare", SOON, |job| job.metadata.uid != first).await?;
    site.wait_for_phase("prepare", JobPhase::Running).await;
    site.end_pod("prepare-worker-0", "1").await;
    let failed = application
        .wait_for_state("failed", SOON, |s| {
            s.operation.0 == "Failed" && s.operation.1 == next
        })
        .await?;
    let (phase, message) = failed
        .results
        .get(HOOK_RESOURCE)
        .context("the sync has no result of the hook")?;
    ensure!(
        phase == "Failed" && message.starts_with("NoRestart: "),
        "{failed:#?}"
    );
    let data = site
        .api::<ConfigMap>()
        .get("data")
        .await?
        .data
        .unwrap_or_default();
    ensure!(data["version"] == "1", "{data:?}");
    application.delete(SOON).await
}

/// Waves of hooks run one job after the other.
pub(crate) async fn test_hook_waves(scene: &GitOpsFixture) -> Result<()> {
    let site = scene.create_site(1).await;
    let of_wave = |name: &str, wave: &str| {
        let job = with_annotation(site.job(name, 1, 1), "argocd.argoproj.io/hook", "Sync");
        with_annotation(job, "argocd.argoproj.io/sync-wave", wave)
    };
    // Hooks alone are no difference from git, so no sync would start.
    let [_, data] = hook_and_rest(&site, "1");
    let repository = repository_with(&[of_wave("first", "1"), of_wave("second", "2"), data])?;
    let application = scene.application_for(&site, &repository);
    let application = scene.argocd.create_application(&application).await?;
    site.wait_for_phase("first", JobPhase::Running).await;
    let api = site.api::<TrainingJob>();
    for _ in 0..5 {
        sleep(Duration::from_secs(1)).await;
        ensure!(
            api.get_opt("second").await?.is_none(),
            "the sync does not wait for the first hook"
        );
    }
    site.end_pod("first-worker-0", "0").await;
    site.wait_for_phase("second", JobPhase::Running).await;
    site.end_pod("second-worker-0", "0").await;
    application
        .wait_for_state("synced", SOON, |s| s.operation.0 == "Succeeded")
        .await?;
    application.delete(SOON).await
}
