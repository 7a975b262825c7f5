//! A running gang whose job could not start any more keeps its resources under every leader.

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::{Reason, TrainingQueue};
use trellis_e2e::cluster::Nodes;
use trellis_e2e::jobs::uids;
use trellis_e2e::namespace::TestNamespace;
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::queues::resource_groups;
use trellis_e2e::site::Site;

use super::program;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quota_of_a_gang_that_may_not_start_any_more_is_not_given_twice() {
    let control_plane = operator::control_plane().await.unwrap();
    let (mut first, _proxy) =
        Operator::behind_proxy(&control_plane, program(), &Launch::named("first"))
            .await
            .unwrap();
    let site = Site::new(&control_plane, "held", Nodes::new(2).gpus(8)).await;
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
    let mut runs = site.job("runs", 1, 8);
    runs["spec"]["queueName"] = json!("small");
    site.create(runs).await.unwrap();
    site.reaches("runs", JobPhase::Running).await;
    let ran = uids(&site.whole("runs", 1).await);

    // The queue is taken from its namespace, and a new leader has never seen it admitted.
    first.kill().unwrap();
    operator::give_lease_back(&control_plane).await.unwrap();
    let queues: Api<TrainingQueue> = Api::all(control_plane.client());
    let patch = json!({"spec": {"namespaceSelector": selects(&[other.name()])}});
    queues
        .patch("small", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let (mut second, _proxy) =
        Operator::behind_proxy(&control_plane, program(), &Launch::named("second"))
            .await
            .unwrap();
    let others = site.jobs_of(&other);
    let mut waits = others.job("waits", 1, 8);
    waits["spec"]["queueName"] = json!("small");
    others.create(waits).await.unwrap();
    others.waits_for("waits", Reason::QuotaExceeded).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(others.pods("waits").await.len(), 0);
    assert_eq!(uids(&site.whole("runs", 1).await), ran);
    // When it ends, its quota is the other's.
    site.exit("runs-worker-0", "0").await;
    others.reaches("waits", JobPhase::Running).await;
    second.assert_runs();
}
