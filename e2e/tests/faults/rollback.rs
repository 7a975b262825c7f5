//! The operator is rolled back to a version that cannot read some jobs, and forward again.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::jobs::{SOON, uids};
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::site::Site;
use trellis_e2e::wait::eventually;

use super::program;
use super::undecodable::set_schema;

/// A field that this version does not know.
async fn set_unknown_field(site: &Site, name: &str, value: Value) {
    let jobs: Api<DynamicObject> = Api::namespaced_with(
        site.api::<Pod>().into_client(),
        site.name(),
        &ApiResource::erase::<TrainingJob>(&()),
    );
    let patch = json!({"spec": {"fromTheFuture": value}});
    eventually(SOON, || async {
        let now = jobs
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .with_context(|| format!("change {name}"))?;
        // A changed schema takes a moment until every request sees it.
        let there = now.data["spec"].get("fromTheFuture").is_some();
        ensure!(there != value.is_null(), "{name} is {}", now.data);
        Ok(())
    })
    .await
    .unwrap();
}

async fn status(site: &Site, name: &str) -> anyhow::Result<Value> {
    let jobs: Api<DynamicObject> = Api::namespaced_with(
        site.api::<Pod>().into_client(),
        site.name(),
        &ApiResource::erase::<TrainingJob>(&()),
    );
    Ok(jobs.get(name).await?.data["status"].clone())
}

/// A job keeps its state while the operator cannot decode it, however long that lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_cannot_be_read_for_a_while_loses_nothing() {
    let control_plane = operator::control_plane().await.unwrap();
    let site = Site::new(&control_plane, "rollback", Nodes::new(2).gpus(8)).await;
    let launch = Launch::named("operator");
    let (mut operator, proxy) = Operator::behind_proxy(&control_plane, program(), &launch)
        .await
        .unwrap();
    site.submit("done", 1, 1).await;
    site.reaches("done", JobPhase::Running).await;
    site.exit("done-worker-0", "0").await;
    site.reaches("done", JobPhase::Complete).await;
    site.submit("runs", 2, 1).await;
    site.reaches("runs", JobPhase::Running).await;
    let pods = uids(&site.whole("runs", 2).await);
    let kept = uids(&site.pods("done").await);
    let before = status(&site, "runs").await.unwrap();

    operator.kill().unwrap();
    operator::give_lease_back(&control_plane).await.unwrap();
    let anything = json!({"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    }});
    set_schema(&control_plane.client(), &anything).await;
    for name in ["done", "runs"] {
        set_unknown_field(&site, name, json!(1)).await;
    }
    let _next = Operator::behind(&control_plane, program(), &proxy, &launch)
        .await
        .unwrap();
    // The status of the running job changes only in its condition Accepted.
    eventually(SOON, || async {
        let now = status(&site, "runs").await?;
        let conditions = now["conditions"].as_array().cloned().unwrap_or_default();
        let accepted = conditions.iter().find(|c| c["type"] == "Accepted");
        let accepted = accepted.context("no condition Accepted")?;
        ensure!(accepted["reason"] == "InvalidSpec", "{accepted}");
        ensure!(conditions.len() == 10, "{conditions:?}");
        for same in ["phase", "attempt", "admittedTime", "runningTime"] {
            ensure!(now[same] == before[same], "{same} is {}", now[same]);
        }
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(status(&site, "done").await.unwrap()["phase"], "Complete");

    for name in ["done", "runs"] {
        set_unknown_field(&site, name, Value::Null).await;
    }
    site.becomes("runs", |s| {
        let accepted = s.conditions.iter().find(|c| c.type_ == "Accepted");
        s.phase == Some(JobPhase::Running) && accepted.is_some_and(|c| c.status == "True")
    })
    .await;
    assert_eq!(uids(&site.whole("runs", 2).await), pods);
    let done = site.reaches("done", JobPhase::Complete).await;
    assert_eq!(done.status.unwrap().attempt, Some(1));
    assert_eq!(uids(&site.pods("done").await), kept);
}
