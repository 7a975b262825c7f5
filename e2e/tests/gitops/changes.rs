//! Commits and manual changes.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use kube::core::{NamespaceResourceScope, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::sleep;
use trellis_api::job::JobPhase;
use trellis_api::{JobPolicy, PodGroup, TrainingJob, TrainingQueue};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{phase, pod_uids};
use trellis_e2e::wait::{eventually, wait_for, wait_until_deleted};

use crate::fixtures::{
    GitOpsFixture, SOON, objects_yaml, policy_manifest, queue_manifest, repository_with,
};
use crate::tracking::{check_children_untracked, mpi_job};

pub(crate) async fn test_commits(scene: &GitOpsFixture) -> Result<()> {
    let site = scene.create_site(1).await;
    let mut job = site.job("train", 2, 4);
    let repository = repository_with(std::slice::from_ref(&job))?;
    let application = scene.application_for(&site, &repository);
    let application = scene.argocd.create_application(&application).await?;
    site.wait_for_phase("train", JobPhase::Running).await;
    let pods = pod_uids(&site.list_pods("train").await);

    // A change that a running job allows.
    job["spec"]["deadlines"] = json!({"activeSeconds": 86400});
    job["spec"]["restart"]["limit"] = json!(7);
    let good =
        repository.commit_files(&[("all.yaml", &objects_yaml(std::slice::from_ref(&job)))])?;
    application.refresh().await?;
    application
        .wait_for_state("synced", SOON, |s| {
            s.is_synced(&good) && s.health == "Healthy"
        })
        .await?;
    let changed = site.api::<TrainingJob>().get("train").await?;
    let limit = changed.spec.restart.as_ref().and_then(|r| r.limit);
    ensure!(limit == Some(7), "{:?}", changed.spec.restart);
    ensure!(
        pod_uids(&site.list_pods("train").await) == pods,
        "its pods were replaced"
    );

    // A change that a running job does not allow.
    let mut other = job.clone();
    other["spec"]["taskGroups"][0]["command"] = json!(["python", "other.py"]);
    let bad = repository.commit_files(&[("all.yaml", &objects_yaml(&[other]))])?;
    application.refresh().await?;
    let refused = application
        .wait_for_state("refused", SOON, |s| {
            s.operation.0 == "Failed" && s.operation.1 == bad && s.sync == "OutOfSync"
        })
        .await?;
    let (_, sync_message) = &refused.results["TrainingJob/train"];
    let expected = "is fixed once the job has had its first place: create a new job";
    ensure!(
        sync_message.contains("command") && sync_message.contains(expected),
        "{sync_message}"
    );
    // The job itself has not changed.
    ensure!(refused.health == "Healthy", "{refused:#?}");
    ensure!(
        pod_uids(&site.list_pods("train").await) == pods,
        "its pods were replaced"
    );

    let taken_back = repository.commit_files(&[("all.yaml", &objects_yaml(&[job]))])?;
    application.refresh().await?;
    application
        .wait_for_state("in sync again", SOON, |s| {
            s.sync == "Synced" && s.revision == taken_back
        })
        .await?;
    application.delete(SOON).await
}

pub(crate) async fn test_self_heal(scene: &GitOpsFixture) -> Result<()> {
    let site = scene.create_site(1).await;
    let mut job = site.job("train", 1, 1);
    job["spec"]["restart"]["limit"] = json!(2);
    let mut running = site.job("is-to-run", 1, 1);
    running["spec"]["suspend"] = json!(false);
    let repository = repository_with(&[job, running])?;
    let application = scene.application_for(&site, &repository);
    let application = scene.argocd.create_application(&application).await?;
    for job in ["train", "is-to-run"] {
        site.wait_for_phase(job, JobPhase::Running).await;
    }
    application
        .wait_for_state("Healthy", SOON, |s| s.health == "Healthy")
        .await?;
    let api = site.api::<TrainingJob>();
    let limit = |job: &TrainingJob| job.spec.restart.as_ref().and_then(|r| r.limit);

    let by_hand = site
        .patch("train", json!({"spec": {"restart": {"limit": 9}}}))
        .await?;
    ensure!(limit(&by_hand) == Some(9));
    wait_for(&api, "train", SOON, |job| limit(job) == Some(2)).await?;

    // A change like that of `trellis suspend` is reverted if git sets the field, ...
    let suspend = json!({"spec": {"suspend": true}});
    site.patch("is-to-run", suspend.clone()).await?;
    wait_for(&api, "is-to-run", SOON, |job| {
        job.spec.suspend == Some(false)
    })
    .await?;
    // ... and kept if git does not set the field.
    site.patch("train", suspend).await?;
    application
        .wait_for_state("Suspended", SOON, |s| s.health == "Suspended")
        .await?;
    application.refresh().await?;
    // Three times the delay of self-heal.
    sleep(Duration::from_secs(6)).await;
    let state = application.read_state().await?;
    ensure!(
        state.sync == "Synced" && state.health == "Suspended",
        "{state:#?}"
    );
    let job = api.get("train").await?;
    ensure!(job.spec.suspend == Some(true), "{:?}", job.spec.suspend);
    application.delete(SOON).await
}

/// Git contains the job, so Argo CD creates it again after a cancellation, and the command warns
/// about that.
pub(crate) async fn test_cancelled_job(scene: &GitOpsFixture) -> Result<()> {
    let site = scene.create_site(1).await;
    let repository = repository_with(&[site.job("train", 1, 1)])?;
    let application = scene.application_for(&site, &repository);
    let application = scene.argocd.create_application(&application).await?;
    let first = site.wait_for_phase("train", JobPhase::Running).await;
    let before = application
        .wait_for_state("Healthy", SOON, |s| {
            s.sync == "Synced" && s.health == "Healthy"
        })
        .await?;

    let cancel = ["cancel", "train", "--wait"];
    let (stdout, noted) = scene.run_trellis(&site, &cancel).await?;
    let expected = "trainingjob.trellis.dev/train cancelled: its pod has 30 s to stop\n";
    ensure!(stdout == expected, "{stdout}");
    let note = format!("note: Argo CD ({}) deploys this job", site.name());
    ensure!(
        noted.contains(&note) && noted.contains("may create it again"),
        "{noted}"
    );

    let another = |job: &TrainingJob| {
        job.metadata.uid != first.metadata.uid && phase(job) == Some(JobPhase::Running)
    };
    let second = wait_for(&site.api(), "train", SOON, another).await?;
    let status = second.status.unwrap_or_default();
    ensure!(status.attempt == Some(1), "{status:?}");
    let after = application
        .wait_for_state("Healthy again", SOON, |s| {
            s.sync == "Synced" && s.health == "Healthy"
        })
        .await?;
    ensure!(after.revision == before.revision, "{after:#?}");
    application.delete(SOON).await
}

pub(crate) async fn test_pruning(scene: &GitOpsFixture) -> Result<()> {
    let site = scene.create_site(1).await;
    let name = site.name();
    // The framework with the most children.
    let mut job = mpi_job(&site);
    job["spec"]["queueName"] = json!(name);
    let repository = repository_with(&[queue_manifest(name), policy_manifest(name)])?;
    let revision = repository.commit_files(&[("job.yaml", &objects_yaml(&[job]))])?;
    let application = scene.application_for(&site, &repository);
    let application = scene.argocd.create_application(&application).await?;
    application
        .wait_for_state("Healthy", SOON, |s| {
            s.is_synced(&revision) && s.health == "Healthy"
        })
        .await?;
    site.wait_for_phase("train", JobPhase::Running).await;
    // Children of each kind exist.
    check_children_untracked(&site).await?;

    let without = repository.remove_file("job.yaml")?;
    application.refresh().await?;
    wait_until_deleted(&site.api::<TrainingJob>(), "train", SOON).await?;
    check_no_objects_left::<Pod>(&site).await?;
    check_no_objects_left::<PodGroup>(&site).await?;
    check_no_objects_left::<Service>(&site).await?;
    check_no_objects_left::<NetworkPolicy>(&site).await?;
    check_no_objects_left::<ConfigMap>(&site).await?;
    check_no_objects_left::<Secret>(&site).await?;
    let state = application
        .wait_for_state("synced", SOON, |s| s.is_synced(&without))
        .await?;
    ensure!(state.health == "Healthy", "{state:#?}");

    application.delete(SOON).await?;
    let queues: Api<TrainingQueue> = Api::all(scene.control_plane.client());
    ensure!(
        queues.get_opt(name).await?.is_none(),
        "the queue still exists"
    );
    ensure!(
        site.api::<JobPolicy>().get_opt(name).await?.is_none(),
        "the policy still exists"
    );
    Ok(())
}

async fn check_no_objects_left<K>(site: &TestSite) -> Result<()>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
    K::DynamicType: Default,
{
    let of_job = ListParams::default().labels("trellis.dev/job=train");
    eventually(SOON, || async {
        let remaining = site.api::<K>().list(&of_job).await?.items;
        let remaining: Vec<String> = remaining.iter().map(ResourceExt::name_any).collect();
        let kind = std::any::type_name::<K>();
        ensure!(remaining.is_empty(), "{kind}: {remaining:?} are left");
        Ok(())
    })
    .await
}
