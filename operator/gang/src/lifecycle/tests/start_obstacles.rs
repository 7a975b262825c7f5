//! Start obstacles of pods: missing images, wrong configuration and unbound volumes.

use std::sync::Arc;

use super::faults::{count_restarts, excluded_nodes};
use super::*;
use crate::observed::{StartObstacle, StartObstacleKind};

fn start_obstacle(obstacle: StartObstacleKind, since: i64) -> Option<Arc<StartObstacle>> {
    Some(Arc::new(StartObstacle {
        kind: obstacle,
        container: "main".to_owned(),
        message: "the kubelet's words".to_owned(),
        since: Some(at(since)),
    }))
}

#[test]
fn pod_with_a_setup_error_restarts_elsewhere_after_a_minute() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Pending);
    case.pod(0).start_obstacle = start_obstacle(StartObstacleKind::Setup, 0);
    case.second = 59;
    case.expect_status(JobPhase::Starting, Reason::ContainerConfigError);
    case.second = 60;
    case.expect_status(JobPhase::Restarting, Reason::ContainerConfigError);
    assert_eq!(count_restarts(&case), (0, 1));
    assert_eq!(case.status.excluded_nodes[0].node, "node-0");
}

#[test]
fn uncounted_restart_has_a_minimum_back_off() {
    let no_wait = json!({"backoffSeconds": 0, "maxBackoffSeconds": 0});
    let mut case = JobCase::new(json!({"restart": no_wait}));
    case.place(1, &PodPhase::Pending);
    case.pod(0).start_obstacle = start_obstacle(StartObstacleKind::Config, 0);
    case.expect_status(JobPhase::Restarting, Reason::ContainerConfigError);
    assert_eq!(case.status.retry_time, time(10));
}

#[test]
fn gang_keeps_its_place_for_a_missing_image_for_5_minutes() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Running);
    case.pod(1).phase = PodPhase::Pending;
    case.pod(1).start_obstacle = start_obstacle(StartObstacleKind::Image, 20);
    case.second = 30;
    let next = case.expect_status(JobPhase::Starting, Reason::ImagePullFailed);
    assert_eq!(next.next_check, Some(at(320)));
    case.second = 320;
    case.expect_status(JobPhase::Restarting, Reason::ImagePullFailed);
    assert_eq!(count_restarts(&case), (1, 0));
    // The pods are being deleted; the status shows the journal's reason.
    case.journal.phase = Some(PodGroupPhase::Unwinding);
    case.journal.reason = Some(Reason::Restarting);
    case.expect_status(JobPhase::Restarting, Reason::Restarting);
    // The job is blocked until the next attempt, and keeps saying so.
    case.clear();
    for _ in 0..2 {
        case.expect_status(JobPhase::Blocked, Reason::ImagePullFailed);
        let message = case.status.message.clone().unwrap();
        assert!(
            message.starts_with("pod \"llm-worker-1\": the kubelet's words; attempt 2"),
            "{message}"
        );
    }
    case.second = 330;
    case.set_explanation(Reason::InsufficientCapacity);
    case.expect_status(JobPhase::Queued, Reason::InsufficientCapacity);
}

#[test]
fn gang_restarts_at_once_on_a_permanent_start_obstacle() {
    for (obstacle, reason, count) in [
        (StartObstacleKind::NoImage, Reason::ImagePullFailed, 1),
        (StartObstacleKind::Root, Reason::ContainerConfigError, 1),
        // A missing Secret counts against no budget, because it may still be created.
        (StartObstacleKind::Config, Reason::ContainerConfigError, 0),
    ] {
        let mut case = JobCase::new(json!({}));
        case.place(1, &PodPhase::Pending);
        case.pod(0).start_obstacle = start_obstacle(obstacle, 0);
        case.expect_status(JobPhase::Restarting, reason);
        assert_eq!(count_restarts(&case), (count, 0), "{obstacle:?}");
    }
}

#[test]
fn gang_restarts_when_an_ephemeral_claim_is_unbound_for_10_minutes() {
    let mut case = JobCase::new(json!({"deadlines": {"startupSeconds": 900}}));
    case.place(1, &PodPhase::Pending);
    case.pod(0).start_obstacle = start_obstacle(StartObstacleKind::Claim, 0);
    case.second = 599;
    case.expect_status(JobPhase::Starting, Reason::ClaimNotBound);
    let message = case.status.message.clone().unwrap();
    assert!(
        message.starts_with("PersistentVolumeClaim \"main\" of pod \"llm-worker-0\" "),
        "{message}"
    );
    case.second = 600;
    case.expect_status(JobPhase::Restarting, Reason::ClaimNotBound);
    // A provisioner may be down for hours: no limit ends the job for that.
    assert_eq!(count_restarts(&case), (0, 0));
    assert_eq!(case.status.excluded_nodes[0].node, "node-0");
    assert!(
        excluded_nodes(&case).is_empty(),
        "it is tried there if nowhere else"
    );
}

#[test]
fn gang_restarts_at_once_when_a_volume_cannot_be_bound() {
    let mut case = JobCase::new(json!({}));
    case.place(1, &PodPhase::Pending);
    case.pod(0).start_obstacle = start_obstacle(StartObstacleKind::Volume, 0);
    case.expect_status(JobPhase::Restarting, Reason::ClaimNotBound);
    // A startup deadline that is shorter than the claim's: it is not the job's fault.
    let mut case = JobCase::new(json!({"deadlines": {"startupSeconds": 60}}));
    case.place(1, &PodPhase::Pending);
    case.pod(0).start_obstacle = start_obstacle(StartObstacleKind::Claim, 0);
    case.expect_status(JobPhase::Starting, Reason::ClaimNotBound);
    case.second = 60;
    case.expect_status(JobPhase::Restarting, Reason::ClaimNotBound);
    assert_eq!(count_restarts(&case), (0, 0));
}

#[test]
fn back_off_for_a_missing_object_grows_without_limit_on_attempts() {
    let restart = json!({"limit": 0, "scope": "Never", "backoffSeconds": 10,
        "maxBackoffSeconds": 30});
    let mut case = JobCase::new(json!({"restart": restart}));
    for (attempt, wait) in [(1, 10), (2, 20), (3, 30), (4, 30)] {
        case.place(attempt, &PodPhase::Pending);
        case.pod(0).start_obstacle = start_obstacle(StartObstacleKind::Config, 0);
        case.expect_status(JobPhase::Restarting, Reason::ContainerConfigError);
        assert_eq!(case.status.retry_time, time(wait));
        assert_eq!(case.status.internal.failed_starts, Some(attempt));
        case.clear();
        case.expect_status(JobPhase::Queued, Reason::ContainerConfigError);
    }
    case.place(5, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    assert_eq!(case.status.internal.failed_starts, None);
}
