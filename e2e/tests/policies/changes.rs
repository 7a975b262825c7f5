//! Policies that change while gangs wait and run.

use std::time::Duration;

use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, PolicyDecision};
use trellis_e2e::jobs::{message, reason, uids};

use super::scene::{NO_IMAGE, about, active, apply, becomes, decision, delete, event, policy};
use super::{shared, site};

#[tokio::test]
async fn a_forbid_stops_a_gang_that_waits_and_none_that_runs() {
    let control_plane = shared().await;
    let site = site("late", 1).await;
    site.submit("runs", 1, 8).await;
    site.reaches("runs", JobPhase::Running).await;
    let before = uids(&site.pods("runs").await);
    site.submit("waits", 1, 8).await;
    site.reaches("waits", JobPhase::Queued).await;
    apply(control_plane, &about(&site, NO_IMAGE, json!({}))).await;
    let refused = site.reaches("waits", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");

    // The running job goes on, and the violation is reported.
    let id = format!("{}/no", site.name());
    let told = event(&site, "runs", "PolicyViolation").await;
    assert!(told.contains(&id), "{told}");
    let runs = site
        .becomes("runs", |s| {
            s.policy.as_ref().and_then(|p| p.decision) == Some(PolicyDecision::Denied)
        })
        .await;
    assert_eq!(runs.status.as_ref().unwrap().phase, Some(JobPhase::Running));
    let status = becomes(control_plane, site.name(), |s| s.violation_count == Some(1)).await;
    assert_eq!(status.violations[0].job, "runs");
    assert_eq!(status.violations[0].policies, [id.as_str()]);
    assert_eq!(uids(&site.pods("runs").await), before);

    // There is room, and still nothing starts.
    site.exit("runs-worker-0", "0").await;
    site.reaches("runs", JobPhase::Complete).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(site.pods("waits").await.len(), 0);
    delete(control_plane, site.name()).await;
    site.reaches("waits", JobPhase::Running).await;
}

/// A forbid comes at the same moment as free GPUs, again and again. In either order a refused job
/// has no pod.
#[tokio::test]
async fn a_forbid_that_comes_with_the_room_leaves_no_pod_of_a_refused_gang() {
    let control_plane = shared().await;
    let site = site("race", 1).await;
    for round in 0..5_u64 {
        let (first, second) = (format!("a{round}"), format!("b{round}"));
        site.submit(&first, 1, 8).await;
        site.reaches(&first, JobPhase::Running).await;
        site.submit(&second, 1, 8).await;
        site.reaches(&second, JobPhase::Queued).await;
        let policy = about(&site, NO_IMAGE, json!({}));
        let pod = format!("{first}-worker-0");
        let forbid = async {
            tokio::time::sleep(Duration::from_millis(round * 40)).await;
            apply(control_plane, &policy).await;
        };
        tokio::join!(site.exit(&pod, "0"), forbid);
        active(control_plane, site.name()).await;
        let ended = site
            .becomes(&second, |s| {
                matches!(s.phase, Some(JobPhase::Refused | JobPhase::Running))
            })
            .await;
        if reason(&ended) == "PolicyDenied" {
            site.pods_become(&second, 0).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(site.pods(&second).await.len(), 0);
        }
        site.delete::<TrainingJob>(&second).await;
        site.pods_become(&second, 0).await;
        delete(control_plane, site.name()).await;
        // The next round's first job is allowed.
        let probe = format!("c{round}");
        site.submit(&probe, 1, 8).await;
        site.reaches(&probe, JobPhase::Running).await;
        site.delete::<TrainingJob>(&probe).await;
        site.pods_become(&probe, 0).await;
    }
}

/// Policies decide again about each new attempt of a gang.
#[tokio::test]
async fn a_policy_on_attempts_is_asked_before_each() {
    let control_plane = shared().await;
    let site = site("attempts", 1).await;
    let text = "@id(\"twice\") forbid(principal, action == Trellis::Action::\"Submit\", resource) \
                when { context.attempt > 2 };";
    apply(control_plane, &about(&site, text, json!({}))).await;
    active(control_plane, site.name()).await;
    site.submit("j", 1, 8).await;
    site.reaches("j", JobPhase::Running).await;
    site.exit("j-worker-0", "1").await;
    site.runs_again("j", 2).await;
    site.exit("j-worker-0", "1").await;
    let refused = site
        .becomes("j", |s| {
            s.phase == Some(JobPhase::Refused) && s.attempt == Some(3)
        })
        .await;
    assert!(
        message(&refused).contains("/twice\""),
        "{}",
        message(&refused)
    );
    site.pods_become("j", 0).await;
    delete(control_plane, site.name()).await;
    let runs = site.runs_again("j", 3).await;
    assert_eq!(decision(&runs), Some(PolicyDecision::Allowed));
    assert!(
        policy(&runs)
            .policies
            .iter()
            .any(|id| id.starts_with("starter/"))
    );
}
