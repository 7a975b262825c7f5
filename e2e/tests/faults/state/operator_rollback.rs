//! The operator is rolled back to a version that cannot read some jobs, and forward again.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, pod_uids};
use trellis_e2e::wait::eventually;

use crate::operator_program;
use crate::state::undecodable_jobs::set_schema;

/// A field that this version cannot decode.
async fn set_unknown_field(site: &TestSite, name: &str, value: Value) {
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
        // A changed schema takes effect after a moment.
        let has_field = now.data["spec"].get("fromTheFuture").is_some();
        ensure!(has_field != value.is_null(), "{name} is {}", now.data);
        Ok(())
    })
    .await
    .unwrap();
}

async fn job_status(site: &TestSite, name: &str) -> anyhow::Result<Value> {
    let jobs: Api<DynamicObject> = Api::namespaced_with(
        site.api::<Pod>().into_client(),
        site.name(),
        &ApiResource::erase::<TrainingJob>(&()),
    );
    Ok(jobs.get(name).await?.data["status"].clone())
}

/// A job keeps its state as long as the operator cannot decode it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_keeps_its_state_while_the_operator_cannot_decode_it() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let site = TestSite::new(&control_plane, "rollback", NodeTemplate::new(2).gpus(8)).await;
    let launch = LaunchOptions::with_name("operator");
    let (mut operator, proxy) =
        Operator::start_behind_new_proxy(&control_plane, operator_program(), &launch)
            .await
            .unwrap();
    site.submit("done", 1, 1).await;
    site.wait_for_phase("done", JobPhase::Running).await;
    site.end_pod("done-worker-0", "0").await;
    site.wait_for_phase("done", JobPhase::Complete).await;
    site.submit("runs", 2, 1).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    let pods = pod_uids(&site.wait_for_whole_gang("runs", 2).await);
    let finished_pods = pod_uids(&site.list_pods("done").await);
    let before = job_status(&site, "runs").await.unwrap();

    operator.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();
    let anything = json!({"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    }});
    set_schema(&control_plane.client(), &anything).await;
    for name in ["done", "runs"] {
        set_unknown_field(&site, name, json!(1)).await;
    }
    let _next = Operator::start_behind_proxy(&control_plane, operator_program(), &proxy, &launch)
        .await
        .unwrap();
    // The status of the running job changes only in its condition Accepted.
    eventually(SOON, || async {
        let now = job_status(&site, "runs").await?;
        let conditions = now["conditions"].as_array().cloned().unwrap_or_default();
        let accepted = conditions.iter().find(|c| c["type"] == "Accepted");
        let accepted = accepted.context("no condition Accepted")?;
        ensure!(accepted["reason"] == "InvalidSpec", "{accepted}");
        ensure!(conditions.len() == 10, "{conditions:?}");
        for field in ["phase", "attempt", "admittedTime", "runningTime"] {
            ensure!(now[field] == before[field], "{field} is {}", now[field]);
        }
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(
        job_status(&site, "done").await.unwrap()["phase"],
        "Complete"
    );

    for name in ["done", "runs"] {
        set_unknown_field(&site, name, Value::Null).await;
    }
    site.wait_for_status("runs", |s| {
        let accepted = s.conditions.iter().find(|c| c.type_ == "Accepted");
        s.phase == Some(JobPhase::Running) && accepted.is_some_and(|c| c.status == "True")
    })
    .await;
    assert_eq!(pod_uids(&site.wait_for_whole_gang("runs", 2).await), pods);
    let complete = site.wait_for_phase("done", JobPhase::Complete).await;
    assert_eq!(complete.status.unwrap().attempt, Some(1));
    assert_eq!(pod_uids(&site.list_pods("done").await), finished_pods);
}
