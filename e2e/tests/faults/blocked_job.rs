//! A running gang whose job could not start any more keeps its resources under every leader.

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::{Reason, TrainingQueue};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::pod_uids;
use trellis_e2e::site::namespace::TestNamespace;
use trellis_e2e::site::queues::resource_groups;

use super::operator_program;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quota_of_a_running_gang_is_charged_once_after_its_queue_excludes_it() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let (mut first, _proxy) = Operator::start_behind_new_proxy(
        &control_plane,
        operator_program(),
        &LaunchOptions::with_name("first"),
    )
    .await
    .unwrap();
    let site = TestSite::new(&control_plane, "held", NodeTemplate::new(2).gpus(8)).await;
    let other = TestNamespace::create(&control_plane, "other")
        .await
        .unwrap();
    let selects = |namespaces: &[&str]| {
        json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}]})
    };
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": "small"},
        "spec": {
            "namespaceSelector": selects(&[site.name(), other.name()]),
            "resourceGroups": resource_groups(&[("default", 8)]),
        },
    });
    control_plane.apply_yaml(&queue.to_string()).await.unwrap();
    let mut running = site.job("runs", 1, 8);
    running["spec"]["queueName"] = json!("small");
    site.create(running).await.unwrap();
    site.wait_for_phase("runs", JobPhase::Running).await;
    let ran = pod_uids(&site.wait_for_whole_gang("runs", 1).await);

    // The queue no longer selects the namespace, and the new leader has never seen the job
    // admitted.
    first.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();
    let queues: Api<TrainingQueue> = Api::all(control_plane.client());
    let patch = json!({"spec": {"namespaceSelector": selects(&[other.name()])}});
    queues
        .patch("small", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let (mut second, _proxy) = Operator::start_behind_new_proxy(
        &control_plane,
        operator_program(),
        &LaunchOptions::with_name("second"),
    )
    .await
    .unwrap();
    let other_jobs = site.jobs_in(&other);
    let mut pending = other_jobs.job("waits", 1, 8);
    pending["spec"]["queueName"] = json!("small");
    other_jobs.create(pending).await.unwrap();
    other_jobs
        .wait_until_queued_for("waits", Reason::QuotaExceeded)
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(other_jobs.list_pods("waits").await.len(), 0);
    assert_eq!(pod_uids(&site.wait_for_whole_gang("runs", 1).await), ran);
    // When the job ends, the other job gets its quota.
    site.end_pod("runs-worker-0", "0").await;
    other_jobs.wait_for_phase("waits", JobPhase::Running).await;
    second.assert_runs();
}
