//! Argo CD tracks the objects in git, and none of those that Trellis creates.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt;
use kube::api::ListParams;
use kube::core::{NamespaceResourceScope, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::site::TestSite;

use crate::fixtures::{GitOpsFixture, SOON, objects_yaml, repository_with};

/// Returns a job `train` of the framework with the most children, which include a ConfigMap and a
/// Secret.
pub(crate) fn mpi_job(site: &TestSite) -> Value {
    let mut job = site.job("train", 2, 1);
    let worker = &mut job["spec"]["taskGroups"][0];
    let mut launcher = worker.clone();
    worker["command"].take();
    for (key, value) in [("name", "launcher"), ("role", "Launcher")] {
        launcher[key] = json!(value);
    }
    launcher["replicas"] = json!(1);
    let worker = worker.take();
    job["spec"]["taskGroups"] = json!([launcher, worker]);
    job["spec"]["framework"] = json!("MPI");
    job["spec"]["securityContext"] = json!({"runAsUser": 1000});
    job
}

pub(crate) async fn test_untracked_children(scene: &GitOpsFixture) -> Result<()> {
    let site = scene.create_site(1).await;
    let mut job = mpi_job(&site);
    let repository = repository_with(std::slice::from_ref(&job))?;
    let application = scene.application_for(&site, &repository);
    let application = scene.argocd.create_application(&application).await?;
    site.wait_for_phase("train", JobPhase::Running).await;
    application
        .wait_for_state("Healthy", SOON, |s| s.health == "Healthy")
        .await?;
    let tracked = site.api::<TrainingJob>().get("train").await?;
    ensure!(
        is_tracked(&tracked),
        "Argo CD does not track the job: {:?}",
        tracked.metadata
    );
    let before = check_children_untracked(&site).await?;
    ensure!(before.len() >= 8, "{before:?}");

    // Another sync, and a hard refresh.
    job["spec"]["restart"]["limit"] = json!(5);
    let next = repository.commit_files(&[("all.yaml", &objects_yaml(&[job]))])?;
    application.refresh().await?;
    let state = application
        .wait_for_state("synced", SOON, |s| {
            s.is_synced(&next) && s.health == "Healthy"
        })
        .await?;
    let resources: Vec<&String> = state.resources.keys().collect();
    ensure!(resources == ["TrainingJob/train"], "{state:#?}");
    // Argo CD does not warn about orphaned resources either.
    ensure!(state.conditions.is_empty(), "{state:#?}");
    ensure!(
        check_children_untracked(&site).await? == before,
        "children were pruned or replaced"
    );
    application.delete(SOON).await
}

fn is_tracked(object: &impl ResourceExt) -> bool {
    let labels = object.labels().keys();
    let keys = labels.chain(object.annotations().keys());
    let of_argo = |key: &String| {
        key.starts_with("argocd.argoproj.io/") || key == "app.kubernetes.io/instance"
    };
    keys.into_iter().any(of_argo)
}

/// Returns the uids of all children of the job. Checks that children of each kind exist, and that
/// none is tracked.
pub(crate) async fn check_children_untracked(site: &TestSite) -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    all.extend(untracked_uids::<Service>(site).await?);
    all.extend(untracked_uids::<NetworkPolicy>(site).await?);
    all.extend(untracked_uids::<ConfigMap>(site).await?);
    all.extend(untracked_uids::<Secret>(site).await?);
    all.extend(untracked_uids::<PodGroup>(site).await?);
    all.extend(untracked_uids::<Pod>(site).await?);
    Ok(all)
}

async fn untracked_uids<K>(site: &TestSite) -> Result<BTreeSet<String>>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
    K::DynamicType: Default,
{
    let labels = ListParams::default().labels("trellis.dev/job=train");
    let mut uids = BTreeSet::new();
    for object in site.api::<K>().list(&labels).await?.items {
        ensure!(!is_tracked(&object), "{:?}", object.meta());
        uids.extend(object.uid());
    }
    ensure!(!uids.is_empty(), "no {}", std::any::type_name::<K>());
    Ok(uids)
}
