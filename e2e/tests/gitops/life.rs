//! From submit to finish, and a minute more: nothing that the operator writes is a difference.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::time::sleep;
use trellis_api::job::JobPhase;
use trellis_e2e::argocd::State;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::site::Site;

use crate::scene::{SOON, Scene, policy, queue, repository};

/// How long it is looked at after the job's end.
const AFTER: Duration = Duration::from_secs(60);
/// Time between two comparisons that are asked for.
const EVERY: Duration = Duration::from_secs(2);

pub(crate) async fn client_side(scene: &Scene) -> Result<()> {
    life(scene, |_| ()).await
}

/// As most who are careful have it: applied by the API server, and compared by it.
pub(crate) async fn server_side(scene: &Scene) -> Result<()> {
    let by_server = |application: &mut Value| {
        application["spec"]["syncPolicy"]["syncOptions"] = json!(["ServerSideApply=true"]);
        application["metadata"]["annotations"] =
            json!({"argocd.argoproj.io/compare-options": "ServerSideDiff=true"});
    };
    life(scene, by_server).await
}

/// Every kind that is delivered beside a job.
fn surroundings(name: &str) -> Vec<Value> {
    let of = |kind: &str, spec: Value| {
        json!({"apiVersion": "trellis.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": spec})
    };
    vec![
        queue(name),
        policy(name),
        of(
            "ResourceFlavor",
            json!({"nodeLabels": {"example.com/pool": name}}),
        ),
        of(
            "RuntimeProfile",
            json!({"env": [{"name": "NCCL_DEBUG", "value": "WARN"}]}),
        ),
        of(
            "QuotaPolicy",
            json!({"subject": {"queue": name}, "limits": {"runningJobs": 10, "gpuHours": {"hours": 100, "per": "30d"}}}),
        ),
    ]
}

async fn life(scene: &Scene, change: impl FnOnce(&mut Value)) -> Result<()> {
    let site = scene.site(1).await;
    let mut objects = surroundings(site.name());
    // More than there is, at first.
    let mut job = site.job("train", 4, 4);
    job["spec"]["queue"] = json!(site.name());
    job["spec"]["profile"] = json!(site.name());
    // Quantities and numbers, as people write them.
    job["spec"]["taskGroups"][0]["resources"] = json!({"cpu": "1000m", "memory": "1024Mi"});
    objects.push(job);
    let repository = repository(&objects)?;
    let mut application = scene.application(&site, &repository);
    change(&mut application);
    let application = scene.argocd.deliver(&application).await?;

    let told = std::sync::atomic::AtomicBool::new(false);
    let over = || told.load(std::sync::atomic::Ordering::Relaxed);
    let watched = application.history(|_| over());
    let lived = async {
        let lived = lives(scene, &site).await;
        told.store(true, std::sync::atomic::Ordering::Relaxed);
        // Something for the watch to see, and to end by.
        application.refresh().await?;
        lived
    };
    let compared = async {
        while !over() {
            application.refresh().await?;
            sleep(EVERY).await;
        }
        anyhow::Ok(())
    };
    let (history, (), ()) = tokio::try_join!(watched, lived, compared)?;
    judge(&history)?;
    application.delete(SOON).await
}

/// Waits, runs, fails, runs again, ends; and is looked at for a while.
async fn lives(scene: &Scene, site: &Site) -> Result<()> {
    site.reaches("train", JobPhase::Queued).await;
    sleep(2 * EVERY).await;
    let more = Nodes::new(1).gpus(8);
    let _more = site.more_nodes(&scene.control_plane, more).await;
    site.reaches("train", JobPhase::Running).await;
    sleep(2 * EVERY).await;
    site.exit("train-worker-1", "1").await;
    site.runs_again("train", 2).await;
    sleep(2 * EVERY).await;
    for index in 0..4 {
        site.exit(&format!("train-worker-{index}"), "0").await;
    }
    site.reaches("train", JobPhase::Complete).await;
    sleep(AFTER).await;
    Ok(())
}

fn judge(history: &[State]) -> Result<()> {
    let synced = history
        .iter()
        .skip_while(|s| s.sync != "Synced" || s.operation.0 != "Succeeded");
    let synced: Vec<&State> = synced.collect();
    for state in &synced {
        let differs = state
            .resources
            .iter()
            .any(|(_, (sync, _, _))| sync != "Synced");
        ensure!(
            state.sync == "Synced" && !differs,
            "a difference: {state:#?}"
        );
        // Self-heal would have synced once more, and a difference that it has seen shows here too.
        ensure!(state.syncs == 1, "synced again: {state:#?}");
        ensure!(state.conditions.is_empty(), "{state:#?}");
    }
    let mut healths: Vec<&str> = synced.iter().map(|s| s.health.as_str()).collect();
    healths.dedup();
    let lived = ["Progressing", "Healthy", "Progressing", "Healthy"];
    ensure!(healths == lived, "{healths:?}");
    let mut compared: Vec<&str> = synced.iter().map(|s| s.reconciled.as_str()).collect();
    compared.dedup();
    ensure!(
        compared.len() >= 30,
        "compared {} times only",
        compared.len()
    );
    Ok(())
}
