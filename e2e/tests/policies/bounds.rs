//! A namespace has more policies than the operator evaluates. Their status says so, jobs in the
//! namespace wait, and other jobs go on.

use kube::Api;
use kube::api::DeleteParams;
use trellis_api::job::JobPhase;
use trellis_api::{JobPolicy, TrainingJob};
use trellis_e2e::jobs::{message, reason};

use super::scene::{apply, condition, create, own, own_is};
use super::{shared, site};

/// Forbids nothing that a job of these tests asks for.
const OTHER: &str = "forbid(principal, action == Trellis::Action::\"UseVolume\", resource);";

#[tokio::test]
async fn namespace_beyond_its_bound_says_so_and_its_jobs_wait_until_it_is_mended() {
    let control_plane = shared().await;
    let (beyond, other) = (site("beyond", 1).await, site("within", 1).await);
    let names: Vec<_> = (0..17).map(|i| format!("p{i}")).collect();
    for name in &names {
        apply(control_plane, &own(&beyond, name, OTHER)).await;
    }
    let said = "the namespace has 17 JobPolicies, and at most 16 are evaluated";
    for name in &names {
        let status = own_is(&beyond, name, "Active", "False").await;
        let (stalled, message) = condition(&status, "Stalled");
        assert_eq!(stalled, "True");
        assert!(message.contains(said), "{name}: {message}");
        assert!(
            message.contains("merge or delete some"),
            "{name}: {message}"
        );
    }
    create(&beyond, beyond.job("j", 1, 8)).await;
    let waits = beyond.reaches("j", JobPhase::Waiting).await;
    assert_eq!(reason(&waits), "PolicyNotEvaluated");
    assert!(message(&waits).contains(said), "{}", message(&waits));
    create(&other, other.job("j", 1, 8)).await;
    other.reaches("j", JobPhase::Running).await;
    assert_eq!(beyond.pods("j").await.len(), 0);

    let policies: Api<JobPolicy> = beyond.api();
    let (last, _) = names.split_last().unwrap();
    policies
        .delete(last, &DeleteParams::default())
        .await
        .unwrap();
    beyond.reaches("j", JobPhase::Running).await;
    own_is(&beyond, "p0", "Ready", "True").await;
    beyond.delete::<TrainingJob>("j").await;
}
