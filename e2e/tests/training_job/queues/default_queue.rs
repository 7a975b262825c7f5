//! The queue of jobs without `queueName`.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use trellis_api::PodGroup;
use trellis_api::job::JobPhase;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::pod_uids;

use crate::{create_site, shared_control_plane};

/// Returns the queue in the job's status and in its PodGroup.
async fn status_and_group_queue(site: &TestSite, name: &str) -> (String, String) {
    let job = site.api::<trellis_api::TrainingJob>().get(name).await;
    let status_queue = job.unwrap().status.unwrap().queue.unwrap();
    let group = site.api::<PodGroup>().get(name).await.unwrap();
    (status_queue, group.spec.queue_name)
}

#[tokio::test]
async fn new_default_queue_takes_pending_jobs_and_no_placed_job() {
    let site = create_site("defaults", 1).await;
    site.submit("runs", 2, 4).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    let before = pod_uids(&site.wait_for_whole_gang("runs", 2).await);
    site.submit("waits", 2, 4).await;
    site.wait_for_phase("waits", JobPhase::Queued).await;

    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": site.name()}});
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": site.name()},
        "spec": {"namespaceSelector": {}, "defaultFor": selector},
    });
    let control_plane = shared_control_plane().await;
    control_plane.apply_yaml(&queue.to_string()).await.unwrap();
    let new = site.name().to_owned();
    let twice = |queue: &str| (queue.to_owned(), queue.to_owned());
    site.wait_for_status("waits", |s| s.queue.as_ref() == Some(&new))
        .await;
    assert_eq!(status_and_group_queue(&site, "waits").await, twice(&new));
    // The operator reconciles the job again, and the queue stays.
    let patch = json!({"metadata": {"annotations": {"example.com/look": "1"}}});
    site.patch("runs", patch).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(
        status_and_group_queue(&site, "runs").await,
        twice("default")
    );
    assert_eq!(pod_uids(&site.wait_for_whole_gang("runs", 2).await), before);

    // The job releases its nodes and is pending again.
    site.delete::<Pod>("runs-worker-0").await;
    site.wait_for_status("runs", |s| s.queue.as_ref() == Some(&new))
        .await;
}
