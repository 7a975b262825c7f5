//! Failures of pods, their effect, and the status that reports them.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::kubelet;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{message, reason};
use trellis_e2e::wait::wait_for;

use crate::{create_site, shared_control_plane};

/// Makes the containers of new pods fail to start for this reason.
async fn hang_new_pods(site: &TestSite, reason: &str) {
    let words = [(kubelet::HANG, "true"), (kubelet::HANG_REASON, reason)];
    let annotations =
        PodPolicy::annotate_for_kubelets(shared_control_plane().await, site.name(), &words);
    annotations.await.unwrap();
}

/// Returns a job that restarts after a minute.
fn slowly_retried_job(site: &TestSite, name: &str) -> Value {
    let mut job = site.job(name, 2, 4);
    job["spec"]["restart"] = json!({"backoffSeconds": 60, "maxBackoffSeconds": 60});
    job
}

#[tokio::test]
async fn status_has_the_termination_message_of_a_failed_rank() {
    let site = create_site("lastline", 1).await;
    site.create(site.job("j", 2, 1)).await.unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
    let words = "step 80000\nRuntimeError: CUDA error: uncorrectable ECC error encountered\n";
    site.annotate_pod("j-worker-1", kubelet::TERMINATION_MESSAGE, words)
        .await;
    site.end_pod("j-worker-1", "1").await;
    let restarted = site.wait_for_running_attempt("j", 2).await;
    let failure = restarted.status.unwrap().last_failure.unwrap();
    let line = "RuntimeError: CUDA error: uncorrectable ECC error encountered";
    assert_eq!(failure.last_line.as_deref(), Some(line));
    let template = site.wait_for_whole_gang("j", 2).await[0]
        .spec
        .clone()
        .unwrap();
    let policy = template.containers[0].termination_message_policy.clone();
    assert_eq!(policy.as_deref(), Some("FallbackToLogsOnError"));
}

#[tokio::test]
async fn restart_rules_fail_ignore_or_restart_a_job() {
    let site = create_site("rules", 1).await;
    let mut job = site.job("j", 3, 1);
    job["spec"]["restart"]["rules"] = json!([
        {"onExitCodes": [42], "action": "Fail"},
        {"onExitCodes": [3], "action": "Ignore"},
        {"onReasons": ["OOMKilled"], "action": "RestartWithoutCounting"},
    ]);
    site.create(job).await.unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
    site.end_pod("j-worker-2", "3").await;
    site.annotate_pod("j-worker-1", kubelet::EXIT_REASON, "OOMKilled")
        .await;
    site.end_pod("j-worker-1", "137").await;
    let restarted = site.wait_for_running_attempt("j", 2).await.status.unwrap();
    assert_eq!(
        (restarted.restarts, restarted.disruptions),
        (Some(0), Some(0))
    );
    site.end_pod("j-worker-0", "42").await;
    let failed = site.wait_for_phase("j", JobPhase::Failed).await;
    assert_eq!(reason(&failed), "FailedByRule");
    let status_message = message(&failed);
    assert!(
        status_message.ends_with("restart.rules[0] says Fail"),
        "{status_message}"
    );
}

/// A job that waits for a missing object releases its GPUs.
#[tokio::test]
async fn pods_with_missing_references_release_their_gpus_at_once() {
    let site = create_site("config", 1).await;
    hang_new_pods(&site, "CreateContainerConfigError").await;
    site.create(slowly_retried_job(&site, "stuck"))
        .await
        .unwrap();
    let pending = site.wait_for_status("stuck", |s| {
        let is_stuck = s
            .reason
            .is_some_and(|r| r.as_str() == "ContainerConfigError");
        is_stuck && s.phase == Some(JobPhase::Queued)
    });
    let pending = pending.await;
    assert!(message(&pending).contains("test: CreateContainerConfigError"));
    let status = pending.status.unwrap();
    assert_eq!(
        (status.restarts, status.internal.failed_starts),
        (Some(0), Some(1))
    );
    site.wait_for_pod_count("stuck", 0).await;
}

/// The image pull may still succeed, so the job keeps its nodes for a while. The status reports the
/// error at once.
#[tokio::test]
async fn image_pull_error_is_reported_while_the_job_keeps_its_place() {
    let site = create_site("image", 1).await;
    hang_new_pods(&site, "ImagePullBackOff").await;
    site.create(slowly_retried_job(&site, "j")).await.unwrap();
    let starts = site.wait_for_status("j", |s| {
        s.reason.is_some_and(|r| r.as_str() == "ImagePullFailed")
    });
    let starts = starts.await;
    let phase = starts.status.as_ref().unwrap().phase;
    assert_eq!(phase, Some(JobPhase::Starting));
    let status_message = message(&starts);
    assert!(
        status_message.contains("the room is given back at"),
        "{status_message}"
    );
    site.wait_for_pod_count("j", 2).await;
}

#[tokio::test]
async fn invalid_image_name_fails_the_pod_at_once() {
    let site = create_site("typo", 1).await;
    hang_new_pods(&site, "InvalidImageName").await;
    site.create(slowly_retried_job(&site, "j")).await.unwrap();
    let blocked = site.wait_for_phase("j", JobPhase::Blocked).await;
    assert_eq!(reason(&blocked), "ImagePullFailed");
    site.wait_for_pod_count("j", 0).await;
}

#[tokio::test]
async fn node_is_avoided_after_two_failures_in_a_row() {
    let site = create_site("badnode", 1).await;
    let mut job = site.job("j", 1, 8);
    job["spec"]["restart"]["limit"] = json!(9);
    site.create(job).await.unwrap();
    let fails = async |attempt| {
        site.wait_for_running_attempt("j", attempt).await;
        site.end_pod("j-worker-0", "1").await;
    };
    fails(1).await;
    fails(2).await;
    // No other node exists, so the gang uses the avoided node.
    let restarted = site.wait_for_running_attempt("j", 3).await.status.unwrap();
    let bad = site.nodes().names()[0].clone();
    assert_eq!(restarted.excluded_nodes[0].node, bad);
    let _more = site
        .add_nodes(shared_control_plane().await, NodeTemplate::new(1).gpus(8))
        .await;
    site.end_pod("j-worker-0", "1").await;
    site.wait_for_running_attempt("j", 4).await;
    let pods = site.wait_for_whole_gang("j", 1).await;
    let node = pods[0].spec.as_ref().unwrap().node_name.clone();
    assert_ne!(node, Some(bad));
}

/// The operator cannot know whether a rank on an unreachable node still writes.
#[tokio::test]
async fn job_with_lost_node_wait_is_not_placed_until_its_pod_is_deleted() {
    let site = create_site("cutoff", 2).await;
    let mut job = site.job("j", 1, 8);
    job["spec"]["restart"]["lostNode"] = json!("Wait");
    site.create(job).await.unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
    let pod = site.wait_for_whole_gang("j", 1).await[0].clone();
    let node = pod.spec.unwrap().node_name.unwrap();
    site.nodes().kill_kubelet(&node).await.unwrap();
    let jobs = site.api::<TrainingJob>();
    let is_lost = wait_for(&jobs, "j", Duration::from_secs(90), |job: &TrainingJob| {
        job.status.as_ref().is_some_and(|s| s.attempt == Some(2))
    });
    is_lost.await.unwrap();
    // Longer than the time until the operator gives a node up.
    tokio::time::sleep(Duration::from_secs(40)).await;
    let remaining = site.list_pods("j").await;
    assert_eq!(remaining.len(), 1);
    assert_eq!(remaining[0].metadata.uid, pod.metadata.uid);
    assert!(remaining[0].metadata.deletion_timestamp.is_some());
    // A user who knows that the node is off deletes the pod.
    let pods = site.api::<Pod>();
    let no_grace = DeleteParams::default().grace_period(0);
    pods.delete("j-worker-0", &no_grace).await.unwrap();
    site.wait_for_running_attempt("j", 2).await;
}

/// The garbage collector deletes these pods, and no kubelet exists to stop them. Pods of a job that
/// waits for its lost nodes may still write, and stay until a user confirms that they have stopped.
#[tokio::test]
async fn pods_of_a_deleted_job_on_a_lost_node_are_removed() {
    let site = create_site("orphans", 2).await;
    site.submit("j", 1, 2).await;
    site.submit("suspended", 1, 2).await;
    let mut waiting_job = site.job("w", 1, 4);
    waiting_job["spec"]["restart"]["lostNode"] = json!("Wait");
    site.create(waiting_job).await.unwrap();
    for job in ["j", "suspended", "w"] {
        site.wait_for_phase(job, JobPhase::Running).await;
    }
    let pod = site.wait_for_whole_gang("j", 1).await[0].clone();
    let waiting_pod = site.wait_for_whole_gang("w", 1).await[0].clone();
    let suspended_pod = site.wait_for_whole_gang("suspended", 1).await[0].clone();
    let node = pod.spec.unwrap().node_name.unwrap();
    for other in [&waiting_pod, &suspended_pod] {
        assert_eq!(other.spec.as_ref().unwrap().node_name.as_ref(), Some(&node));
    }
    site.nodes().kill_kubelet(&node).await.unwrap();
    let before = site.api::<TrainingJob>().get("j").await.unwrap();
    site.patch("suspended", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    let pods = site.api::<Pod>();
    let stops = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    let stopping = wait_for(&pods, "suspended-worker-0", Duration::from_secs(60), stops);
    stopping.await.unwrap();
    for job in ["j", "suspended", "w"] {
        site.delete::<TrainingJob>(job).await;
    }
    // A new job of the same name needs the names of these pods.
    site.submit("j", 1, 8).await;
    let jobs = site.api::<TrainingJob>();
    let running = wait_for(&jobs, "j", Duration::from_secs(150), |job: &TrainingJob| {
        let phase = job.status.as_ref().and_then(|status| status.phase);
        job.metadata.uid != before.metadata.uid && phase == Some(JobPhase::Running)
    });
    running.await.unwrap();
    site.wait_for_pod_count("suspended", 0).await;
    let remaining = site.list_pods("w").await;
    assert_eq!(remaining.len(), 1);
    assert_eq!(remaining[0].metadata.uid, waiting_pod.metadata.uid);
    assert!(remaining[0].metadata.deletion_timestamp.is_some());
}

/// A pod may be deleted with its node, or by a user.
#[tokio::test]
async fn deleted_succeeded_pod_is_not_replaced() {
    let site = create_site("finished", 1).await;
    site.submit("j", 2, 1).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    site.end_pod("j-worker-1", "0").await;
    let reported = site
        .wait_for_status("j", |s| s.internal.finished_pods.is_some())
        .await;
    let finished = reported.status.unwrap().internal.finished_pods.unwrap();
    assert_eq!(finished.groups[0].completed_indexes, "1");
    site.delete::<Pod>("j-worker-1").await;
    site.wait_for_pod_count("j", 1).await;
    site.end_pod("j-worker-0", "0").await;
    let complete = site.wait_for_phase("j", JobPhase::Complete).await;
    let status = complete.status.unwrap();
    assert_eq!(
        (status.attempt, status.ready.as_deref()),
        (Some(1), Some("2/2"))
    );
}
