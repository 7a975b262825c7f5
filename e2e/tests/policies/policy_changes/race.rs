//! Policies that change between the decision about a gang and its placement. The gang is denied
//! with the reason, no pod is created, and existing pods are removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use trellis_api::PodGroup;
use trellis_api::job::{JobPhase, PolicyDecision};
use trellis_api::pod_group::PodGroupPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::proxy::{Proxy, ProxyFault, Request, Verb};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message, reason};
use trellis_e2e::wait::{eventually, wait_for};

use crate::fixtures::{
    FORBID_NO_IMAGE, apply_policy, cluster_policy_for, delete_policy, policy_decision,
    wait_until_active,
};
use crate::operator_program;

/// The dry run of a pod, the first request of a commit.
fn is_pod_dry_run(request: &Request) -> bool {
    request.verb == Verb::Create && request.resource == "pods" && request.dry_run
}

/// The journal, before the first pod.
fn is_journal_write(request: &Request) -> bool {
    request.is_write() && request.resource == "podgroups.trellis.dev/status"
}

/// Holds requests of a kind, and reports the first one.
fn hold_requests(proxy: &Proxy, is_held_request: fn(&Request) -> bool) -> Arc<AtomicBool> {
    let is_held = Arc::new(AtomicBool::new(false));
    let flag = is_held.clone();
    proxy.on_request(move |request| {
        if !is_held_request(request) {
            return ProxyFault::Pass;
        }
        flag.store(true, Ordering::SeqCst);
        ProxyFault::Hold
    });
    is_held
}

/// The second pod of two, when the first one exists.
fn is_second_pod_create(request: &Request) -> bool {
    let is_create = request.verb == Verb::Create && request.resource == "pods";
    let name = request.object_name().unwrap_or_default();
    is_create && !request.dry_run && name == "j-worker-1"
}

/// The expected outcome: no pod is ever created, or no pod remains.
#[derive(Clone, Copy, PartialEq)]
enum ExpectedPods {
    NeverCreated,
    NoneRemain,
}

async fn check_denied_between(is_held_request: fn(&Request) -> bool, pods: ExpectedPods) {
    let control_plane = operator::start_control_plane().await.unwrap();
    // The operator keeps its lease while the proxy holds its requests: the lease is long.
    let launch = LaunchOptions::with_name("operator").lease_seconds(60);
    let (_operator, proxy) =
        Operator::start_behind_new_proxy(&control_plane, operator_program(), &launch)
            .await
            .unwrap();
    let site = TestSite::new(&control_plane, "between", NodeTemplate::new(2).gpus(8)).await;
    wait_until_active(&control_plane, "starter").await;
    let is_held = hold_requests(&proxy, is_held_request);
    site.submit("j", 2, 8).await;
    eventually(SOON, || async {
        anyhow::ensure!(
            is_held.load(Ordering::SeqCst),
            "the operator has not sent the request"
        );
        Ok(())
    })
    .await
    .unwrap();
    // The policies have allowed the job, and the scheduler has found a placement. Now a policy
    // forbids the job.
    let policy = cluster_policy_for(&site, FORBID_NO_IMAGE, json!({}));
    apply_policy(&control_plane, &policy).await;
    wait_until_active(&control_plane, site.name()).await;
    proxy.remove_faults();

    let refused = site.wait_for_phase("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    let id = format!("\"{}/no\"", site.name());
    assert!(message(&refused).contains(&id), "{}", message(&refused));
    assert_eq!(policy_decision(&refused), Some(PolicyDecision::Denied));
    let groups = site.api::<PodGroup>();
    let free = wait_for(&groups, "j", SOON, |group: &PodGroup| {
        let journal = group.status.clone().unwrap_or_default();
        journal.plan.is_none() && journal.phase.unwrap_or_default() == PodGroupPhase::Pending
    });
    free.await.unwrap();
    let created_pods = || proxy.counts().count_of(Verb::Create, "pods");
    site.wait_for_pod_count("j", 0).await;
    if pods == ExpectedPods::NeverCreated {
        assert_eq!(created_pods(), 0, "a pod was created");
    }
    let before = created_pods();

    delete_policy(&control_plane, site.name()).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    site.wait_for_whole_gang("j", 2).await;
    assert_eq!(created_pods(), before + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forbid_before_the_plan_is_journaled_leaves_no_pod() {
    check_denied_between(is_pod_dry_run, ExpectedPods::NeverCreated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forbid_while_the_plan_is_journaled_leaves_no_pod() {
    check_denied_between(is_journal_write, ExpectedPods::NeverCreated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forbid_after_half_of_the_gang_leaves_no_pod() {
    check_denied_between(is_second_pod_create, ExpectedPods::NoneRemain).await;
}
