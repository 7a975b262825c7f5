//! The journal under faults: its owner, and the outcome of a write.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::cluster::Nodes;
use trellis_e2e::history::PodHistory;
use trellis_e2e::jobs::{SOON, uids};
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::proxy::{Fault, Request, Verb};
use trellis_e2e::site::Site;
use trellis_e2e::wait::{eventually, wait_gone};

use super::{held, program, scene::Scene};

/// True if a request writes the journal of `job` with `phase` in it.
fn writes_journal(request: &Request, job: &str, phase: &str) -> bool {
    let body = String::from_utf8_lossy(&request.body);
    request.verb == Verb::Patch
        && request.resource == "podgroups.trellis.dev/status"
        && request.name.as_deref() == Some(job)
        && body.contains(phase)
}

/// A job is deleted while its pods are being created, and another of its name takes its place.
/// The last creates of the first end in conflicts with pods of the second: that undoes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_commit_means_nothing_to_the_next_job_of_that_name() {
    let Scene {
        control_plane: _control_plane,
        mut operator,
        proxy,
        site,
    } = Scene::new("again", 2).await;
    held::in_its_commit(&proxy, &site, "j", (4, 8), Fault::Hold).await;
    // Requests that are held already stay held.
    proxy.on_request(|_| Fault::Pass);
    site.delete::<TrainingJob>("j").await;
    let jobs = site.api::<TrainingJob>();
    wait_gone(&jobs, "j", SOON).await.unwrap();
    let second = site.submit("j", 8, 1).await;
    // The operator waits 15 s for the answers to the first one's creates. If it does not wait with
    // the second, that runs by then.
    let whole = eventually(Duration::from_secs(9), || site.try_whole("j", 8)).await;
    proxy.heal();
    tokio::time::sleep(Duration::from_secs(2)).await;
    site.reaches("j", JobPhase::Running).await;
    let now = site.whole("j", 8).await;
    for pod in &now {
        let owners = pod.metadata.owner_references.clone().unwrap_or_default();
        assert_eq!(Some(&owners[0].uid), second.metadata.uid.as_ref());
    }
    if let Ok(before) = whole {
        assert_eq!(uids(&before), uids(&now), "it was undone");
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

/// The journal is written, its response is lost, and the journal cannot be read for a while. Until
/// the operator knows whether the plan is valid, no other gang gets its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_is_kept_until_it_is_known_whether_its_plan_stands() {
    let Scene {
        control_plane: _control_plane,
        mut operator,
        proxy,
        site,
    } = Scene::new("unknown", 1).await;
    let history = PodHistory::record(site.api::<Pod>());
    proxy.stall_watches(|request| request.resource == "podgroups.trellis.dev");
    proxy.on_request(|request| {
        let reads = request.verb == Verb::Get
            && request.resource == "podgroups.trellis.dev"
            && request.name.as_deref() == Some("first");
        if writes_journal(request, "first", "Committing") {
            Fault::DropAnswer
        } else if reads {
            Fault::unavailable()
        } else {
            Fault::Pass
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
    site.reaches("second", JobPhase::Queued).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(history.seen().is_empty(), "{:?}", history.seen());

    proxy.heal();
    site.reaches("first", JobPhase::Running).await;
    site.whole("first", 1).await;
    site.reaches("second", JobPhase::Queued).await;
    let seen = history.seen();
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["first-worker-0"]);
    operator.assert_runs();
}

/// A plan fails, and the journal cannot be written for a while. A leader may still have to roll the
/// plan forward, so no other gang gets its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_is_kept_until_it_is_written_that_its_plan_is_undone() {
    let Scene {
        control_plane: _control_plane,
        operator: _operator,
        proxy,
        site,
    } = Scene::new("undone", 1).await;
    proxy.on_request(|request| {
        if held::creates(request, "first", 4) {
            Fault::Status(403, None)
        } else if writes_journal(request, "first", "Unwinding") {
            Fault::unavailable()
        } else {
            Fault::Pass
        }
    });
    site.submit("first", 8, 1).await;
    site.pods_become("first", 4).await;
    // It would fit beside what has been created.
    site.submit("second", 4, 1).await;
    site.reaches("second", JobPhase::Queued).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(site.pods("second").await.len(), 0);
    proxy.heal();
    site.reaches("second", JobPhase::Running).await;
    site.pods_become("first", 0).await;
}

/// A new leader's first write of a plan that it takes over fails: the plan is still its
/// predecessor's, and is gone on with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_is_taken_over_though_the_first_write_fails() {
    let control_plane = operator::control_plane().await.unwrap();
    let (mut first, proxy) = Operator::behind_proxy(&control_plane, program(), &Launch::named("a"))
        .await
        .unwrap();
    let site = Site::new(&control_plane, "takeover", Nodes::new(1).gpus(8)).await;
    held::in_its_commit(&proxy, &site, "j", (4, 8), Fault::unavailable()).await;
    let begun = uids(&site.pods("j").await);
    first.kill().unwrap();
    operator::give_lease_back(&control_plane).await.unwrap();

    let proxy = trellis_e2e::proxy::Proxy::start(&control_plane)
        .await
        .unwrap();
    let failed = std::sync::atomic::AtomicU32::new(0);
    proxy.on_request(move |request| {
        let fails = writes_journal(request, "j", "epoch")
            && failed.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 3;
        if fails {
            Fault::too_many_requests(1)
        } else {
            Fault::Pass
        }
    });
    let launch = Launch::named("b");
    let _second = Operator::behind(&control_plane, program(), &proxy, &launch)
        .await
        .unwrap();
    let now = uids(&site.whole("j", 8).await);
    assert!(now.is_superset(&begun), "it was undone");
    site.reaches("j", JobPhase::Running).await;
    let failures = proxy
        .counts()
        .sum(|key| key.resource == "podgroups.trellis.dev/status")
        .failures;
    assert_eq!(failures, 3);
}

/// The API server throttles the operator. A gang whose journal cannot be written is retried less
/// and less often, and goes on when it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_cannot_be_written_is_no_hot_loop() {
    let Scene {
        control_plane: _control_plane,
        operator: _operator,
        proxy,
        site,
    } = Scene::new("slow", 1).await;
    // The API server refuses the journal like an invalid object, now and later.
    proxy.on_request(|request| {
        if request.resource == "podgroups.trellis.dev/status" {
            Fault::Status(422, None)
        } else {
            Fault::Pass
        }
    });
    site.create(json!(site.job("j", 1, 8))).await.unwrap();
    eventually(SOON, || async {
        let writes = proxy
            .counts()
            .sum(|k| k.resource == "podgroups.trellis.dev/status");
        anyhow::ensure!(writes.failures > 0, "nothing was refused");
        Ok(())
    })
    .await
    .unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let writes = proxy
        .counts()
        .sum(|k| k.resource == "podgroups.trellis.dev/status");
    // At 0, 0.5, 1.5, 3.5, 7.5 s.
    assert!((3..=6).contains(&writes.requests), "{writes:?}");
    proxy.heal();
    site.reaches("j", JobPhase::Running).await;
}
