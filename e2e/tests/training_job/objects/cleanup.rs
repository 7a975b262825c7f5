//! The objects that remain after a job has ended, and for how long.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::ListParams;
use kube::core::{NamespaceResourceScope, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, TrainingJob, names};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::{eventually, wait_until_deleted};

use crate::create_site;

/// Returns kind and name of all existing children of a job.
async fn job_objects(site: &TestSite, job: &str) -> Result<Vec<String>> {
    async fn add_objects_of_kind<K>(site: &TestSite, job: &str, all: &mut Vec<String>) -> Result<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let own = ListParams::default().labels(&format!("{}={job}", names::JOB));
        let found = site.api::<K>().list_metadata(&own).await?.items;
        let names = found.into_iter().filter_map(|object| object.metadata.name);
        all.extend(names.map(|name| format!("{} {name}", K::kind(&()))));
        Ok(())
    }
    let mut all = Vec::new();
    add_objects_of_kind::<Service>(site, job, &mut all).await?;
    add_objects_of_kind::<NetworkPolicy>(site, job, &mut all).await?;
    add_objects_of_kind::<ConfigMap>(site, job, &mut all).await?;
    add_objects_of_kind::<PodGroup>(site, job, &mut all).await?;
    add_objects_of_kind::<Pod>(site, job, &mut all).await?;
    Ok(all)
}

async fn wait_until_no_objects(site: &TestSite, job: &str) {
    let looked = eventually(SOON, || async {
        let remaining = job_objects(site, job).await?;
        ensure!(remaining.is_empty(), "{remaining:?} are left");
        Ok(())
    });
    looked.await.unwrap();
}

#[tokio::test]
async fn children_are_deleted_after_their_ttl_and_the_job_stays() {
    let site = create_site("ttl", 1).await;
    let mut job = site.job("j", 2, 1);
    // This framework has a ConfigMap.
    job["spec"]["framework"] = json!("DeepSpeed");
    site.create(job).await.unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
    for index in 0..2 {
        site.end_pod(&format!("j-worker-{index}"), "0").await;
    }
    let ended = site.wait_for_phase("j", JobPhase::Complete).await;
    let all = [
        "Service j",
        "NetworkPolicy j",
        "ConfigMap j-hosts",
        "PodGroup j",
        "Pod j-worker-0",
        "Pod j-worker-1",
    ];
    assert_eq!(
        job_objects(&site, "j").await.unwrap(),
        all,
        "the objects were deleted within a day"
    );

    site.patch("j", json!({"spec": {"cleanup": {"childrenTTLSeconds": 0}}}))
        .await
        .unwrap();
    wait_until_no_objects(&site, "j").await;
    // Long enough for the operator to create them again, if it did so.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    wait_until_no_objects(&site, "j").await;
    let now = site.wait_for_phase("j", JobPhase::Complete).await;
    let times = |job: &TrainingJob| job.status.as_ref().unwrap().completion_time.clone();
    assert_eq!(times(&now), times(&ended));
}

#[tokio::test]
async fn finished_job_is_deleted_after_its_ttl_unless_argo_cd_delivers_it() {
    let site = create_site("ttl-job", 1).await;
    let tracked = json!({"argocd.argoproj.io/tracking-id": "team:trellis.dev/TrainingJob:ns/j"});
    for (name, annotations) in [("goes", json!({})), ("delivered", tracked)] {
        let mut job = site.job(name, 1, 1);
        job["metadata"]["annotations"] = annotations;
        job["spec"]["restart"] = json!({"scope": "Never"});
        job["spec"]["ttlSecondsAfterFinished"] = json!(0);
        site.create(job).await.unwrap();
        site.wait_for_phase(name, JobPhase::Running).await;
        // A failed job is cleaned up like a successful one.
        site.end_pod(&format!("{name}-worker-0"), "1").await;
    }
    wait_until_deleted(&site.api::<TrainingJob>(), "goes", SOON)
        .await
        .unwrap();
    for job in ["goes", "delivered"] {
        wait_until_no_objects(&site, job).await;
    }
    site.wait_for_phase("delivered", JobPhase::Failed).await;
}
