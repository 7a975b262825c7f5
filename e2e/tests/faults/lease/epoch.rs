//! A deleted Lease: its transitions start from zero again, while journals have higher epochs.

use anyhow::ensure;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use trellis_api::PodGroup;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, LEASE_NAME, LaunchOptions, NAMESPACE, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, pod_uids};
use trellis_e2e::wait::eventually;

use crate::operator_program;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gangs_are_managed_after_the_lease_is_deleted() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let leases: Api<Lease> = Api::namespaced(control_plane.client(), NAMESPACE);
    // The leader notices the missing lease at its next renewal, after a quarter of this time.
    let launch = LaunchOptions::with_name("first").lease_seconds(20);
    let (mut first, _proxy) =
        Operator::start_behind_new_proxy(&control_plane, operator_program(), &launch)
            .await
            .unwrap();
    let site = TestSite::new(&control_plane, "lease", NodeTemplate::new(2).gpus(8)).await;
    site.submit("j", 2, 8).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let ran = pod_uids(&site.wait_for_whole_gang("j", 2).await);
    // Sets the epoch as after many changes of the leader.
    let groups = site.api::<PodGroup>();
    let patch = json!({"status": {"epoch": 41}});
    groups
        .patch_status("j", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();

    leases
        .delete(LEASE_NAME, &DeleteParams::default())
        .await
        .unwrap();
    // The operator ends before its lease would expire, so the next one does not have to wait.
    eventually(SOON, || async {
        ensure!(
            leases.get_opt(LEASE_NAME).await?.is_none(),
            "the Lease exists"
        );
        Ok(())
    })
    .await
    .unwrap();
    let ended = std::time::Instant::now() + SOON;
    while first.try_wait().unwrap().is_none() {
        assert!(std::time::Instant::now() < ended, "{}", first.log_tail());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }

    let (mut second, _proxy) = Operator::start_behind_new_proxy(
        &control_plane,
        operator_program(),
        &LaunchOptions::with_name("second"),
    )
    .await
    .unwrap();
    // The new leader can write the journal: the gang is rolled back, cleared and committed again.
    site.end_pod("j-worker-1", "1").await;
    site.wait_for_running_attempt("j", 2).await;
    assert!(pod_uids(&site.wait_for_whole_gang("j", 2).await).is_disjoint(&ran));
    let epoch = groups
        .get("j")
        .await
        .unwrap()
        .status
        .unwrap()
        .epoch
        .unwrap();
    assert!(epoch > 41, "{epoch}");
    let lease = leases.get(LEASE_NAME).await.unwrap();
    let transitions = lease.spec.unwrap().lease_transitions.unwrap();
    assert_eq!(i64::from(transitions) + 1, epoch);
    second.assert_runs();
}
