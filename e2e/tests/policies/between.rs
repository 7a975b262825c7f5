//! Policies that change between the decision on a gang and its place: it is denied, with the
//! reason, and not one pod of it is made, or left where some were.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use trellis_api::PodGroup;
use trellis_api::job::{JobPhase, PolicyDecision};
use trellis_api::pod_group::PodGroupPhase;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::jobs::{SOON, message, reason};
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::proxy::{Fault, Proxy, Request, Verb};
use trellis_e2e::site::Site;
use trellis_e2e::wait::{eventually, wait_for};

use super::program;
use super::scene::{NO_IMAGE, about, active, apply, decision, delete};

/// The dry run of a pod, which is the first thing that is done for a place.
fn tries_a_pod(request: &Request) -> bool {
    request.verb == Verb::Create && request.resource == "pods" && request.dry_run
}

/// The journal, before the first pod.
fn opens_the_plan(request: &Request) -> bool {
    request.is_write() && request.resource == "podgroups.trellis.dev/status"
}

/// Holds requests of a kind, and reports when there is one.
fn hold(proxy: &Proxy, which: fn(&Request) -> bool) -> Arc<AtomicBool> {
    let held = Arc::new(AtomicBool::new(false));
    let seen = held.clone();
    proxy.on_request(move |request| {
        if !which(request) {
            return Fault::Pass;
        }
        seen.store(true, Ordering::SeqCst);
        Fault::Hold
    });
    held
}

/// The second pod of two: the gang is half there.
fn creates_the_second(request: &Request) -> bool {
    let is_create = request.verb == Verb::Create && request.resource == "pods";
    let name = request.object_name().unwrap_or_default();
    is_create && !request.dry_run && name == "j-worker-1"
}

/// The expected outcome: no pod is ever created, or no pod remains.
#[derive(Clone, Copy, PartialEq)]
enum Pods {
    NeverAny,
    NoneLeft,
}

async fn is_denied_between(which: fn(&Request) -> bool, pods: Pods) {
    let control_plane = operator::control_plane().await.unwrap();
    // The operator keeps its lease while the proxy holds its requests: the lease is long.
    let launch = Launch::named("operator").lease_seconds(60);
    let (_operator, proxy) = Operator::behind_proxy(&control_plane, program(), &launch)
        .await
        .unwrap();
    let site = Site::new(&control_plane, "between", Nodes::new(2).gpus(8)).await;
    active(&control_plane, "starter").await;
    let held = hold(&proxy, which);
    site.submit("j", 2, 8).await;
    eventually(SOON, || async {
        anyhow::ensure!(held.load(Ordering::SeqCst), "nothing is done for a place");
        Ok(())
    })
    .await
    .unwrap();
    // The policies have allowed the job and the scheduler has found a place. Now a policy forbids
    // it.
    let policy = about(&site, NO_IMAGE, json!({}));
    apply(&control_plane, &policy).await;
    active(&control_plane, site.name()).await;
    proxy.heal();

    let refused = site.reaches("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    let id = format!("\"{}/no\"", site.name());
    assert!(message(&refused).contains(&id), "{}", message(&refused));
    assert_eq!(decision(&refused), Some(PolicyDecision::Denied));
    let groups = site.api::<PodGroup>();
    let free = wait_for(&groups, "j", SOON, |group: &PodGroup| {
        let journal = group.status.clone().unwrap_or_default();
        journal.plan.is_none() && journal.phase.unwrap_or_default() == PodGroupPhase::Pending
    });
    free.await.unwrap();
    let made = || proxy.counts().of(Verb::Create, "pods");
    site.pods_become("j", 0).await;
    if pods == Pods::NeverAny {
        assert_eq!(made(), 0, "not one pod");
    }
    let before = made();

    delete(&control_plane, site.name()).await;
    site.reaches("j", JobPhase::Running).await;
    site.whole("j", 2).await;
    assert_eq!(made(), before + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forbid_that_comes_before_the_plan_is_written_leaves_no_pod() {
    is_denied_between(tries_a_pod, Pods::NeverAny).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forbid_that_comes_while_the_plan_is_written_leaves_no_pod() {
    is_denied_between(opens_the_plan, Pods::NeverAny).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forbid_that_comes_to_half_a_gang_leaves_no_pod() {
    is_denied_between(creates_the_second, Pods::NoneLeft).await;
}
