//! A namespace has more policies than the operator evaluates. Their status reports it, jobs in the
//! namespace wait, and other jobs run.

use kube::Api;
use kube::api::DeleteParams;
use trellis_api::job::JobPhase;
use trellis_api::{JobPolicy, TrainingJob};
use trellis_e2e::site::jobs::{message, reason};

use crate::fixtures::{
    apply_policy, condition_of, create_job, namespace_policy, wait_for_own_condition,
};
use crate::{create_site, shared_control_plane};

/// Returns a policy that forbids no job of these tests.
const UNRELATED_POLICY: &str =
    "forbid(principal, action == Trellis::Action::\"UseVolume\", resource);";

#[tokio::test]
async fn jobs_wait_while_their_namespace_has_too_many_policies() {
    let control_plane = shared_control_plane().await;
    let (beyond, other) = (
        create_site("beyond", 1).await,
        create_site("within", 1).await,
    );
    let names: Vec<_> = (0..17).map(|i| format!("p{i}")).collect();
    for name in &names {
        apply_policy(
            control_plane,
            &namespace_policy(&beyond, name, UNRELATED_POLICY),
        )
        .await;
    }
    let expected = "the namespace has 17 JobPolicies, and at most 16 are evaluated";
    for name in &names {
        let status = wait_for_own_condition(&beyond, name, "Active", "False").await;
        let (stalled, message) = condition_of(&status, "Stalled");
        assert_eq!(stalled, "True");
        assert!(message.contains(expected), "{name}: {message}");
        assert!(
            message.contains("merge or delete some"),
            "{name}: {message}"
        );
    }
    create_job(&beyond, beyond.job("j", 1, 8)).await;
    let pending = beyond.wait_for_phase("j", JobPhase::Waiting).await;
    assert_eq!(reason(&pending), "PolicyNotEvaluated");
    assert!(
        message(&pending).contains(expected),
        "{}",
        message(&pending)
    );
    create_job(&other, other.job("j", 1, 8)).await;
    other.wait_for_phase("j", JobPhase::Running).await;
    assert_eq!(beyond.list_pods("j").await.len(), 0);

    let policies: Api<JobPolicy> = beyond.api();
    let (last, _) = names.split_last().unwrap();
    policies
        .delete(last, &DeleteParams::default())
        .await
        .unwrap();
    beyond.wait_for_phase("j", JobPhase::Running).await;
    wait_for_own_condition(&beyond, "p0", "Ready", "True").await;
    beyond.delete::<TrainingJob>("j").await;
}
