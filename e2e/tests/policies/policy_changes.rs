//! Policies that change while gangs wait and run.

pub(super) mod broken_policies;
pub(super) mod count_limit;
pub(super) mod late_watch;
pub(super) mod operator_restart;
pub(super) mod race;

use std::time::Duration;

use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, PolicyDecision};
use trellis_e2e::site::jobs::{message, pod_uids, reason};

use super::fixtures::{
    FORBID_NO_IMAGE, apply_policy, cluster_policy_for, delete_policy, policy_decision,
    policy_verdict, wait_for_event, wait_for_policy_status, wait_until_active,
};
use super::{create_site, shared_control_plane};

#[tokio::test]
async fn forbid_refuses_a_pending_gang_and_spares_a_running_gang() {
    let control_plane = shared_control_plane().await;
    let site = create_site("late", 1).await;
    site.submit("runs", 1, 8).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    let before = pod_uids(&site.list_pods("runs").await);
    site.submit("waits", 1, 8).await;
    site.wait_for_phase("waits", JobPhase::Queued).await;
    apply_policy(
        control_plane,
        &cluster_policy_for(&site, FORBID_NO_IMAGE, json!({})),
    )
    .await;
    let refused = site.wait_for_phase("waits", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");

    // The running job keeps running, and the violation is reported.
    let id = format!("{}/no", site.name());
    let event_note = wait_for_event(&site, "runs", "PolicyViolation").await;
    assert!(event_note.contains(&id), "{event_note}");
    let running = site
        .wait_for_status("runs", |s| {
            s.policy.as_ref().and_then(|p| p.decision) == Some(PolicyDecision::Denied)
        })
        .await;
    assert_eq!(
        running.status.as_ref().unwrap().phase,
        Some(JobPhase::Running)
    );
    let status =
        wait_for_policy_status(control_plane, site.name(), |s| s.violation_count == Some(1)).await;
    assert_eq!(status.violations[0].job, "runs");
    assert_eq!(status.violations[0].policies, [id.as_str()]);
    assert_eq!(pod_uids(&site.list_pods("runs").await), before);

    // Nodes are free, but no job starts.
    site.end_pod("runs-worker-0", "0").await;
    site.wait_for_phase("runs", JobPhase::Complete).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(site.list_pods("waits").await.len(), 0);
    delete_policy(control_plane, site.name()).await;
    site.wait_for_phase("waits", JobPhase::Running).await;
}

/// A forbid and free GPUs appear at the same time, repeatedly. In either order, a refused job has
/// no pod.
#[tokio::test]
async fn forbid_that_arrives_with_free_capacity_leaves_no_pod() {
    let control_plane = shared_control_plane().await;
    let site = create_site("race", 1).await;
    for round in 0..5_u64 {
        let (first, second) = (format!("a{round}"), format!("b{round}"));
        site.submit(&first, 1, 8).await;
        site.wait_for_phase(&first, JobPhase::Running).await;
        site.submit(&second, 1, 8).await;
        site.wait_for_phase(&second, JobPhase::Queued).await;
        let policy = cluster_policy_for(&site, FORBID_NO_IMAGE, json!({}));
        let pod = format!("{first}-worker-0");
        let forbid = async {
            tokio::time::sleep(Duration::from_millis(round * 40)).await;
            apply_policy(control_plane, &policy).await;
        };
        tokio::join!(site.end_pod(&pod, "0"), forbid);
        wait_until_active(control_plane, site.name()).await;
        let ended = site
            .wait_for_status(&second, |s| {
                matches!(s.phase, Some(JobPhase::Refused | JobPhase::Running))
            })
            .await;
        if reason(&ended) == "PolicyDenied" {
            site.wait_for_pod_count(&second, 0).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(site.list_pods(&second).await.len(), 0);
        }
        site.delete::<TrainingJob>(&second).await;
        site.wait_for_pod_count(&second, 0).await;
        delete_policy(control_plane, site.name()).await;
        // The first job of the next round is allowed.
        let probe = format!("c{round}");
        site.submit(&probe, 1, 8).await;
        site.wait_for_phase(&probe, JobPhase::Running).await;
        site.delete::<TrainingJob>(&probe).await;
        site.wait_for_pod_count(&probe, 0).await;
    }
}

/// Policies judge each new attempt of a gang.
#[tokio::test]
async fn policy_decides_before_each_attempt() {
    let control_plane = shared_control_plane().await;
    let site = create_site("attempts", 1).await;
    let text = "@id(\"twice\") forbid(principal, action == Trellis::Action::\"Submit\", resource) \
                when { context.attempt > 2 };";
    apply_policy(control_plane, &cluster_policy_for(&site, text, json!({}))).await;
    wait_until_active(control_plane, site.name()).await;
    site.submit("j", 1, 8).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    site.end_pod("j-worker-0", "1").await;
    site.wait_for_running_attempt("j", 2).await;
    site.end_pod("j-worker-0", "1").await;
    let refused = site
        .wait_for_status("j", |s| {
            s.phase == Some(JobPhase::Refused) && s.attempt == Some(3)
        })
        .await;
    assert!(
        message(&refused).contains("/twice\""),
        "{}",
        message(&refused)
    );
    site.wait_for_pod_count("j", 0).await;
    delete_policy(control_plane, site.name()).await;
    let running = site.wait_for_running_attempt("j", 3).await;
    assert_eq!(policy_decision(&running), Some(PolicyDecision::Allowed));
    assert!(
        policy_verdict(&running)
            .policies
            .iter()
            .any(|id| id.starts_with("starter/"))
    );
}
