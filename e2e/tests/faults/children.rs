//! The children of a job that runs, while it could not be built anew.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use trellis_api::TrainingQueue;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::jobs::{SOON, uids};
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::site::Site;
use trellis_e2e::wait::eventually;

use super::program;

/// Its Service is there, and its NetworkPolicy lets through what it did.
async fn are_as_before(site: &Site, policy: &NetworkPolicy) {
    eventually(SOON, || async {
        ensure!(site.api::<Service>().get_opt("j").await?.is_some());
        let now = site.api::<NetworkPolicy>().get("j").await?;
        ensure!(now.spec == policy.spec, "{:?}", now.spec);
        Ok(())
    })
    .await
    .unwrap();
}

async fn delete_both(site: &Site) {
    site.delete::<NetworkPolicy>("j").await;
    site.delete::<Service>("j").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_of_a_job_that_runs_are_kept_though_its_queue_is_gone() {
    let control_plane = operator::control_plane().await.unwrap();
    let site = Site::new(&control_plane, "kept", Nodes::new(1).gpus(8)).await;
    let mut first = Operator::start(&control_plane, program()).await.unwrap();
    site.submit("j", 2, 1).await;
    site.reaches("j", JobPhase::Running).await;
    let pods = uids(&site.whole("j", 2).await);
    let policies = site.api::<NetworkPolicy>();
    let policy = policies.get("j").await.unwrap();

    let queues: Api<TrainingQueue> = Api::all(control_plane.client());
    queues
        .delete("default", &DeleteParams::default())
        .await
        .unwrap();
    site.submit("another", 1, 1).await;
    site.reaches("another", JobPhase::Waiting).await;
    let open = json!({"spec": {"egress": [{}]}});
    policies
        .patch("j", &PatchParams::default(), &Patch::Merge(&open))
        .await
        .unwrap();
    are_as_before(&site, &policy).await;
    delete_both(&site).await;
    are_as_before(&site, &policy).await;

    // The second operator has never seen the objects in their right state.
    first.kill().unwrap();
    delete_both(&site).await;
    operator::give_lease_back(&control_plane).await.unwrap();
    let mut second = Operator::start(&control_plane, program()).await.unwrap();
    are_as_before(&site, &policy).await;
    site.reaches("j", JobPhase::Running).await;
    assert_eq!(uids(&site.whole("j", 2).await), pods);
    second.assert_runs();
}
