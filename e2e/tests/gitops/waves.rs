//! Sync waves.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::{JobPolicy, TrainingJob, TrainingQueue};

use crate::scene::{SOON, Scene, annotated, policy, queue, repository, yaml};

fn in_wave(wave: &str, object: Value) -> Value {
    annotated(object, "argocd.argoproj.io/sync-wave", wave)
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn since(object: &impl ResourceExt) -> Result<Time> {
    object
        .creation_timestamp()
        .context("an object without a time")
}

/// Argo CD waits two seconds between waves, so times in whole seconds differ.
pub(crate) async fn order(scene: &Scene) -> Result<()> {
    let site = scene.site(1).await;
    let name = site.name();
    let mut job = site.job("train", 2, 4);
    job["spec"]["queueName"] = json!(name);
    // The reverse of the order in which they must be applied.
    let repository = repository(&[
        in_wave("3", config_map("behind")),
        in_wave("2", job),
        in_wave("1", queue(name)),
        policy(name),
    ])?;
    let application = scene.application(&site, &repository);
    let application = scene.argocd.deliver(&application).await?;
    // A job that runs holds up nothing behind it.
    application
        .becomes("synced", SOON, |s| {
            s.operation.0 == "Succeeded" && s.sync == "Synced" && s.health == "Healthy"
        })
        .await?;
    site.reaches("train", JobPhase::Running).await;
    let queues: Api<TrainingQueue> = Api::all(scene.control_plane.client());
    let times = [
        since(&site.api::<JobPolicy>().get(name).await?)?,
        since(&queues.get(name).await?)?,
        since(&site.api::<TrainingJob>().get("train").await?)?,
        since(&site.api::<ConfigMap>().get("behind").await?)?,
    ];
    ensure!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    application.delete(SOON).await
}

/// Or the commit that opens it again would never be taken.
pub(crate) async fn held(scene: &Scene) -> Result<()> {
    let site = scene.site(1).await;
    let name = site.name();
    let mut held = queue(name);
    held["spec"]["stopPolicy"] = json!("Hold");
    let repository = repository(&[in_wave("1", held), in_wave("2", config_map("behind"))])?;
    let application = scene.application(&site, &repository);
    let application = scene.argocd.deliver(&application).await?;
    let state = application
        .becomes("synced", SOON, |s| {
            s.operation.0 == "Succeeded" && s.sync == "Synced"
        })
        .await?;
    ensure!(
        state.resources.contains_key("ConfigMap/behind"),
        "{state:#?}"
    );
    let told = application
        .becomes("Healthy", SOON, |s| {
            let (_, _, message) = s
                .resources
                .get(&format!("TrainingQueue/{name}"))
                .cloned()
                .unwrap_or_default();
            s.health == "Healthy" && message.contains("spec.stopPolicy is Hold")
        })
        .await?;
    ensure!(told.sync == "Synced", "{told:#?}");

    // A queue whose parent does not exist starts no job, and the sync says so.
    let mut below = queue(name);
    below["spec"]["parentName"] = json!(name);
    let below = yaml(&[in_wave("1", below), in_wave("2", config_map("behind"))]);
    repository.commit(&[("all.yaml", &below)])?;
    application.refresh().await?;
    let wrong = application
        .becomes("Degraded", SOON, |s| s.health == "Degraded")
        .await?;
    let (_, _, message) = &wrong.resources[&format!("TrainingQueue/{name}")];
    ensure!(message.starts_with("QueueMisconfigured: "), "{message}");
    application.delete(SOON).await
}
