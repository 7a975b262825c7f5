//! The children of a running job that could not be compiled again.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use trellis_api::TrainingQueue;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, pod_uids};
use trellis_e2e::wait::eventually;

use super::operator_program;

/// Checks that the Service exists, and that the NetworkPolicy allows the same connections as
/// before.
async fn wait_until_restored(site: &TestSite, policy: &NetworkPolicy) {
    eventually(SOON, || async {
        ensure!(site.api::<Service>().get_opt("j").await?.is_some());
        let now = site.api::<NetworkPolicy>().get("j").await?;
        ensure!(now.spec == policy.spec, "{:?}", now.spec);
        Ok(())
    })
    .await
    .unwrap();
}

async fn delete_children(site: &TestSite) {
    site.delete::<NetworkPolicy>("j").await;
    site.delete::<Service>("j").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_of_a_running_job_are_repaired_without_its_queue() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let site = TestSite::new(&control_plane, "kept", NodeTemplate::new(1).gpus(8)).await;
    let mut first = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    site.submit("j", 2, 1).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let pods = pod_uids(&site.wait_for_whole_gang("j", 2).await);
    let policies = site.api::<NetworkPolicy>();
    let policy = policies.get("j").await.unwrap();

    let queues: Api<TrainingQueue> = Api::all(control_plane.client());
    queues
        .delete("default", &DeleteParams::default())
        .await
        .unwrap();
    site.submit("another", 1, 1).await;
    site.wait_for_phase("another", JobPhase::Waiting).await;
    let open = json!({"spec": {"egress": [{}]}});
    policies
        .patch("j", &PatchParams::default(), &Patch::Merge(&open))
        .await
        .unwrap();
    wait_until_restored(&site, &policy).await;
    delete_children(&site).await;
    wait_until_restored(&site, &policy).await;

    // The second operator has never seen the objects in their right state.
    first.kill().unwrap();
    delete_children(&site).await;
    operator::release_lease(&control_plane).await.unwrap();
    let mut second = Operator::start(&control_plane, operator_program())
        .await
        .unwrap();
    wait_until_restored(&site, &policy).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    assert_eq!(pod_uids(&site.wait_for_whole_gang("j", 2).await), pods);
    second.assert_runs();
}
