//! Sync waves.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::{JobPolicy, TrainingJob, TrainingQueue};

use crate::fixtures::{
    GitOpsFixture, SOON, objects_yaml, policy_manifest, queue_manifest, repository_with,
    with_annotation,
};

fn with_wave(wave: &str, object: Value) -> Value {
    with_annotation(object, "argocd.argoproj.io/sync-wave", wave)
}

fn config_map_manifest(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn creation_time(object: &impl ResourceExt) -> Result<Time> {
    object
        .creation_timestamp()
        .context("an object without a time")
}

/// Argo CD waits two seconds between waves, so times in whole seconds differ.
pub(crate) async fn test_wave_order(scene: &GitOpsFixture) -> Result<()> {
    let site = scene.create_site(1).await;
    let name = site.name();
    let mut job = site.job("train", 2, 4);
    job["spec"]["queueName"] = json!(name);
    // The reverse of the order in which they must be applied.
    let repository = repository_with(&[
        with_wave("3", config_map_manifest("behind")),
        with_wave("2", job),
        with_wave("1", queue_manifest(name)),
        policy_manifest(name),
    ])?;
    let application = scene.application_for(&site, &repository);
    let application = scene.argocd.create_application(&application).await?;
    // A running job does not block later waves.
    application
        .wait_for_state("synced", SOON, |s| {
            s.operation.0 == "Succeeded" && s.sync == "Synced" && s.health == "Healthy"
        })
        .await?;
    site.wait_for_phase("train", JobPhase::Running).await;
    let queues: Api<TrainingQueue> = Api::all(scene.control_plane.client());
    let times = [
        creation_time(&site.api::<JobPolicy>().get(name).await?)?,
        creation_time(&queues.get(name).await?)?,
        creation_time(&site.api::<TrainingJob>().get("train").await?)?,
        creation_time(&site.api::<ConfigMap>().get("behind").await?)?,
    ];
    ensure!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    application.delete(SOON).await
}

/// Otherwise Argo CD would never sync the commit that opens the queue again.
pub(crate) async fn test_stopped_queue(scene: &GitOpsFixture) -> Result<()> {
    let site = scene.create_site(1).await;
    let name = site.name();
    let mut held_queue = queue_manifest(name);
    held_queue["spec"]["stopPolicy"] = json!("Hold");
    let repository = repository_with(&[
        with_wave("1", held_queue),
        with_wave("2", config_map_manifest("behind")),
    ])?;
    let application = scene.application_for(&site, &repository);
    let application = scene.argocd.create_application(&application).await?;
    let state = application
        .wait_for_state("synced", SOON, |s| {
            s.operation.0 == "Succeeded" && s.sync == "Synced"
        })
        .await?;
    ensure!(
        state.resources.contains_key("ConfigMap/behind"),
        "{state:#?}"
    );
    let application_state = application
        .wait_for_state("Healthy", SOON, |s| {
            let (_, _, message) = s
                .resources
                .get(&format!("TrainingQueue/{name}"))
                .cloned()
                .unwrap_or_default();
            s.health == "Healthy" && message.contains("spec.stopPolicy is Hold")
        })
        .await?;
    ensure!(application_state.sync == "Synced", "{application_state:#?}");

    // A queue whose parent does not exist starts no job, and the sync says so.
    let mut below = queue_manifest(name);
    below["spec"]["parentName"] = json!(name);
    let below = objects_yaml(&[
        with_wave("1", below),
        with_wave("2", config_map_manifest("behind")),
    ]);
    repository.commit_files(&[("all.yaml", &below)])?;
    application.refresh().await?;
    let wrong = application
        .wait_for_state("Degraded", SOON, |s| s.health == "Degraded")
        .await?;
    let (_, _, message) = &wrong.resources[&format!("TrainingQueue/{name}")];
    ensure!(message.starts_with("QueueMisconfigured: "), "{message}");
    application.delete(SOON).await
}
