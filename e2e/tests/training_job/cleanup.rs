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
use trellis_e2e::jobs::SOON;
use trellis_e2e::site::Site;
use trellis_e2e::wait::{eventually, wait_gone};

use super::site;

/// Kind and name of all that a job has made and that is there.
async fn made(site: &Site, job: &str) -> Result<Vec<String>> {
    async fn of<K>(site: &Site, job: &str, all: &mut Vec<String>) -> Result<()>
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
    of::<Service>(site, job, &mut all).await?;
    of::<NetworkPolicy>(site, job, &mut all).await?;
    of::<ConfigMap>(site, job, &mut all).await?;
    of::<PodGroup>(site, job, &mut all).await?;
    of::<Pod>(site, job, &mut all).await?;
    Ok(all)
}

async fn nothing_is_left(site: &Site, job: &str) {
    let looked = eventually(SOON, || async {
        let left = made(site, job).await?;
        ensure!(left.is_empty(), "{left:?} are left");
        Ok(())
    });
    looked.await.unwrap();
}

#[tokio::test]
async fn what_a_job_made_goes_when_its_time_is_over_and_the_job_stays() {
    let site = site("ttl", 1).await;
    let mut job = site.job("j", 2, 1);
    // The one with a ConfigMap.
    job["spec"]["framework"] = json!("DeepSpeed");
    site.create(job).await.unwrap();
    site.reaches("j", JobPhase::Running).await;
    for index in 0..2 {
        site.exit(&format!("j-worker-{index}"), "0").await;
    }
    let ended = site.reaches("j", JobPhase::Complete).await;
    let all = [
        "Service j",
        "NetworkPolicy j",
        "ConfigMap j-hosts",
        "PodGroup j",
        "Pod j-worker-0",
        "Pod j-worker-1",
    ];
    assert_eq!(made(&site, "j").await.unwrap(), all, "a day is not over");

    site.patch("j", json!({"spec": {"cleanup": {"childrenTTLSeconds": 0}}}))
        .await
        .unwrap();
    nothing_is_left(&site, "j").await;
    // Long enough for whatever would make them again.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    nothing_is_left(&site, "j").await;
    let now = site.reaches("j", JobPhase::Complete).await;
    let times = |job: &TrainingJob| job.status.as_ref().unwrap().completion_time.clone();
    assert_eq!(times(&now), times(&ended));
}

#[tokio::test]
async fn a_job_goes_with_what_it_made_if_it_says_so_and_nobody_would_bring_it_back() {
    let site = site("ttl-job", 1).await;
    let tracked = json!({"argocd.argoproj.io/tracking-id": "team:trellis.dev/TrainingJob:ns/j"});
    for (name, annotations) in [("goes", json!({})), ("delivered", tracked)] {
        let mut job = site.job(name, 1, 1);
        job["metadata"]["annotations"] = annotations;
        job["spec"]["restart"] = json!({"scope": "Never"});
        job["spec"]["ttlSecondsAfterFinished"] = json!(0);
        site.create(job).await.unwrap();
        site.reaches(name, JobPhase::Running).await;
        // A failed job is cleaned up like a successful one.
        site.exit(&format!("{name}-worker-0"), "1").await;
    }
    wait_gone(&site.api::<TrainingJob>(), "goes", SOON)
        .await
        .unwrap();
    for job in ["goes", "delivered"] {
        nothing_is_left(&site, job).await;
    }
    site.reaches("delivered", JobPhase::Failed).await;
}
