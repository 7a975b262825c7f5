//! The journal under faults: its owner, and the outcome of a write.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::proxy::{ProxyFault, Request, Verb};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, pod_uids};
use trellis_e2e::site::pod_history::PodHistory;
use trellis_e2e::wait::{eventually, wait_until_deleted};

use super::{fixtures::FaultFixture, operator_program, paused_commit};

/// Returns true if a request writes the journal of `job` with this phase.
fn is_journal_write(request: &Request, job: &str, phase: &str) -> bool {
    let body = String::from_utf8_lossy(&request.body);
    request.verb == Verb::Patch
        && request.resource == "podgroups.trellis.dev/status"
        && request.name.as_deref() == Some(job)
        && body.contains(phase)
}

/// A job is deleted while its pods are being created, and a new job with the same name replaces it.
/// The last creates for the first job conflict with pods of the second. These conflicts do not roll
/// back the second job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_of_a_deleted_job_does_not_affect_a_new_job_of_that_name() {
    let FaultFixture {
        control_plane: _control_plane,
        mut operator,
        proxy,
        site,
    } = FaultFixture::new("again", 2).await;
    paused_commit::pause_commit(&proxy, &site, "j", (4, 8), ProxyFault::Hold).await;
    // Requests that are held already stay held.
    proxy.on_request(|_| ProxyFault::Pass);
    site.delete::<TrainingJob>("j").await;
    let jobs = site.api::<TrainingJob>();
    wait_until_deleted(&jobs, "j", SOON).await.unwrap();
    let second = site.submit("j", 8, 1).await;
    // The operator waits 15 s for the answers to the creates of the first job. The second job must
    // run by then.
    let gang_check = eventually(Duration::from_secs(9), || site.check_whole_gang("j", 8)).await;
    proxy.remove_faults();
    tokio::time::sleep(Duration::from_secs(2)).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let now = site.wait_for_whole_gang("j", 8).await;
    for pod in &now {
        let owners = pod.metadata.owner_references.clone().unwrap_or_default();
        assert_eq!(Some(&owners[0].uid), second.metadata.uid.as_ref());
    }
    if let Ok(before) = gang_check {
        assert_eq!(
            pod_uids(&before),
            pod_uids(&now),
            "the gang was rolled back"
        );
    }
    let status = jobs.get("j").await.unwrap().status.unwrap();
    assert_eq!(
        (status.attempt, status.restarts, status.disruptions),
        (Some(1), Some(0), Some(0))
    );
    let journal = site
        .api::<PodGroup>()
        .get("j")
        .await
        .unwrap()
        .status
        .unwrap();
    assert_eq!(journal.failures, None, "{journal:?}");
    operator.assert_runs();
}

/// The journal is written, the response is lost, and the journal cannot be read for a while. Until
/// the operator knows whether the plan is valid, no other gang gets its nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn place_stays_reserved_while_the_plan_write_is_uncertain() {
    let FaultFixture {
        control_plane: _control_plane,
        mut operator,
        proxy,
        site,
    } = FaultFixture::new("unknown", 1).await;
    let history = PodHistory::record(site.api::<Pod>());
    proxy.stall_watches(|request| request.resource == "podgroups.trellis.dev");
    proxy.on_request(|request| {
        let reads = request.verb == Verb::Get
            && request.resource == "podgroups.trellis.dev"
            && request.name.as_deref() == Some("first");
        if is_journal_write(request, "first", "Committing") {
            ProxyFault::DropResponse
        } else if reads {
            ProxyFault::unavailable()
        } else {
            ProxyFault::Pass
        }
    });
    site.submit("first", 1, 8).await;
    let groups = site.api::<PodGroup>();
    eventually(SOON, || async {
        let journal = groups.get("first").await?.status.unwrap_or_default();
        anyhow::ensure!(
            journal.phase == Some(PodGroupPhase::Committing),
            "{journal:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
    site.submit("second", 1, 8).await;
    site.wait_for_phase("second", JobPhase::Queued).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(
        history.uids_by_name().is_empty(),
        "{:?}",
        history.uids_by_name()
    );

    proxy.remove_faults();
    site.wait_for_phase("first", JobPhase::Running).await;
    site.wait_for_whole_gang("first", 1).await;
    site.wait_for_phase("second", JobPhase::Queued).await;
    let uids = history.uids_by_name();
    assert_eq!(uids.keys().collect::<Vec<_>>(), ["first-worker-0"]);
    operator.assert_runs();
}

/// A plan fails, and the journal cannot be written for a while. A leader may still have to roll the
/// plan forward, so no other gang gets its nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn place_stays_reserved_until_the_rollback_is_journaled() {
    let FaultFixture {
        control_plane: _control_plane,
        operator: _operator,
        proxy,
        site,
    } = FaultFixture::new("undone", 1).await;
    proxy.on_request(|request| {
        if paused_commit::is_pod_create(request, "first", 4) {
            ProxyFault::Status(403, None)
        } else if is_journal_write(request, "first", "Unwinding") {
            ProxyFault::unavailable()
        } else {
            ProxyFault::Pass
        }
    });
    site.submit("first", 8, 1).await;
    site.wait_for_pod_count("first", 4).await;
    // The other gang would fit next to the created pods.
    site.submit("second", 4, 1).await;
    site.wait_for_phase("second", JobPhase::Queued).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(site.list_pods("second").await.len(), 0);
    proxy.remove_faults();
    site.wait_for_phase("second", JobPhase::Running).await;
    site.wait_for_pod_count("first", 0).await;
}

/// The first write of a new leader to a plan of its predecessor fails. The plan still has the
/// predecessor's epoch, and the new leader completes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plan_is_rolled_forward_after_failed_takeover_writes() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let (mut first, proxy) = Operator::start_behind_new_proxy(
        &control_plane,
        operator_program(),
        &LaunchOptions::with_name("a"),
    )
    .await
    .unwrap();
    let site = TestSite::new(&control_plane, "takeover", NodeTemplate::new(1).gpus(8)).await;
    paused_commit::pause_commit(&proxy, &site, "j", (4, 8), ProxyFault::unavailable()).await;
    let begun = pod_uids(&site.list_pods("j").await);
    first.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();

    let proxy = trellis_e2e::proxy::Proxy::start(&control_plane)
        .await
        .unwrap();
    let failed = std::sync::atomic::AtomicU32::new(0);
    proxy.on_request(move |request| {
        let fails = is_journal_write(request, "j", "epoch")
            && failed.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 3;
        if fails {
            ProxyFault::too_many_requests(1)
        } else {
            ProxyFault::Pass
        }
    });
    let launch = LaunchOptions::with_name("b");
    let _second = Operator::start_behind_proxy(&control_plane, operator_program(), &proxy, &launch)
        .await
        .unwrap();
    let now = pod_uids(&site.wait_for_whole_gang("j", 8).await);
    assert!(now.is_superset(&begun), "the gang was rolled back");
    site.wait_for_phase("j", JobPhase::Running).await;
    let failures = proxy
        .counts()
        .sum(|key| key.resource == "podgroups.trellis.dev/status")
        .failures;
    assert_eq!(failures, 3);
}

/// The API server refuses the journal of a gang. The operator retries with a growing back-off, and
/// completes the gang when the write succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_journal_writes_are_retried_with_backoff() {
    let FaultFixture {
        control_plane: _control_plane,
        operator: _operator,
        proxy,
        site,
    } = FaultFixture::new("slow", 1).await;
    // The API server refuses the journal like an invalid object, now and later.
    proxy.on_request(|request| {
        if request.resource == "podgroups.trellis.dev/status" {
            ProxyFault::Status(422, None)
        } else {
            ProxyFault::Pass
        }
    });
    site.create(json!(site.job("j", 1, 8))).await.unwrap();
    eventually(SOON, || async {
        let writes = proxy
            .counts()
            .sum(|k| k.resource == "podgroups.trellis.dev/status");
        anyhow::ensure!(writes.failures > 0, "no request was refused");
        Ok(())
    })
    .await
    .unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let writes = proxy
        .counts()
        .sum(|k| k.resource == "podgroups.trellis.dev/status");
    // The operator tries at 0, 0.5, 1.5, 3.5 and 7.5 s.
    assert!((3..=6).contains(&writes.requests), "{writes:?}");
    proxy.remove_faults();
    site.wait_for_phase("j", JobPhase::Running).await;
}
