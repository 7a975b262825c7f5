//! Broken watches: the operator notices all missed changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::proxy::{Proxy, ProxyFault, Request, Verb};
use trellis_e2e::site::jobs::{SOON, TestJobs, pod_uids};
use trellis_e2e::wait::{eventually, wait_until_deleted};

use crate::fixtures::FaultFixture;

/// A running gang of two pods.
async fn start_running_gang() -> FaultFixture {
    let fixture = FaultFixture::new("blind", 3).await;
    fixture.site.submit("j", 2, 8).await;
    fixture.site.wait_for_phase("j", JobPhase::Running).await;
    fixture
}

fn is_pod_request(request: &Request) -> bool {
    request.resource == "pods"
}

fn is_job_request(request: &Request) -> bool {
    request.resource == "trainingjobs.trellis.dev"
}

/// Deletes a pod at once, and waits until it is gone.
async fn delete_pod(jobs: &TestJobs, pod: &str) {
    let api = jobs.api::<Pod>();
    api.delete(pod, &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    wait_until_deleted(&api, pod, SOON).await.unwrap();
}

/// Waits until the gang is placed again after the loss of a pod. The loss counts as a disruption
/// and not as a restart.
async fn wait_for_new_attempt(fixture: &mut FaultFixture, attempt: i64) {
    let job = fixture.site.wait_for_running_attempt("j", attempt).await;
    let status = job.status.unwrap();
    assert_eq!(
        (status.restarts, status.disruptions),
        (Some(0), Some(attempt - 1))
    );
    fixture.site.wait_for_whole_gang("j", 2).await;
    fixture.operator.assert_runs();
}

/// Checks each kind of missed deletion of a pod, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_deletion_is_detected_after_a_blind_watch() {
    let mut fixture = start_running_gang().await;

    // The watch stalls: the connection is open without events.
    fixture.proxy.stall_watches(is_pod_request);
    delete_pod(&fixture.site, "j-worker-0").await;
    // A stalled watch does not delay other watches: another job is placed meanwhile.
    fixture.site.submit("other", 1, 8).await;
    fixture.site.wait_for_whole_gang("other", 1).await;
    fixture.proxy.resume_watches();
    wait_for_new_attempt(&mut fixture, 2).await;
    fixture
        .site
        .wait_for_phase("other", JobPhase::Running)
        .await;

    // The watch is closed and its resource version is compacted, so the operator lists the kind
    // again.
    let (proxy, site) = (&fixture.proxy, &fixture.site);
    tokio::join!(
        force_relist(proxy, is_pod_request),
        delete_pod(site, "j-worker-1"),
    );
    wait_for_new_attempt(&mut fixture, 3).await;

    // Events are lost, so only a list shows the deleted objects.
    fixture
        .proxy
        .drop_events(|request, _| is_pod_request(request));
    delete_pod(&fixture.site, "j-worker-0").await;
    delete_pod(&fixture.site, "j-worker-1").await;
    force_relist(&fixture.proxy, is_pod_request).await;
    wait_for_new_attempt(&mut fixture, 4).await;
}

/// Ends the matching watches, answers later ones with 410 until the operator lists the kind again,
/// and then removes the fault.
async fn force_relist(proxy: &Proxy, matches: fn(&Request) -> bool) {
    let expired = AtomicBool::new(false);
    let listed = Arc::new(AtomicBool::new(false));
    let flag = listed.clone();
    proxy.on_request(move |request| {
        if !matches(request) {
            return ProxyFault::Pass;
        }
        if request.verb == Verb::Watch {
            expired.store(true, Ordering::SeqCst);
            return ProxyFault::ExpireVersion;
        }
        // A list precedes the first watch too. Only a list after an expired watch counts.
        if request.verb == Verb::List && expired.load(Ordering::SeqCst) {
            flag.store(true, Ordering::SeqCst);
        }
        ProxyFault::Pass
    });
    proxy.cut_watches(matches);
    eventually(SOON, || async {
        let listed = listed.load(Ordering::SeqCst);
        ensure!(listed, "the operator has not listed the kind again");
        Ok(())
    })
    .await
    .unwrap();
    proxy.remove_faults();
}

/// The job is replaced by a new job with the same name while the watch loses events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_job_starts_again_after_a_blind_watch() {
    let mut fixture = start_running_gang().await;
    let old = fixture.site.api::<TrainingJob>().get("j").await.unwrap();
    let before = pod_uids(&fixture.site.wait_for_whole_gang("j", 2).await);
    fixture
        .proxy
        .drop_events(|request, _| is_job_request(request));
    fixture.site.delete::<TrainingJob>("j").await;
    wait_until_deleted(&fixture.site.api::<TrainingJob>(), "j", SOON)
        .await
        .unwrap();
    let new = fixture.site.submit("j", 2, 8).await;
    assert_ne!(old.metadata.uid, new.metadata.uid);
    force_relist(&fixture.proxy, is_job_request).await;
    fixture.site.wait_for_running_attempt("j", 1).await;
    let after = fixture.site.wait_for_whole_gang("j", 2).await;
    assert!(pod_uids(&after).is_disjoint(&before));
    for pod in after {
        let owners = pod.metadata.owner_references.unwrap_or_default();
        assert_eq!(Some(&owners[0].uid), new.metadata.uid.as_ref());
    }
    fixture.operator.assert_runs();
}

/// All watches are closed repeatedly while the operator works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constantly_cut_watches_do_not_disturb_gangs() {
    let mut fixture = start_running_gang().await;
    let cutting = async {
        loop {
            fixture.proxy.cut_watches(|_| true);
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    let working = async {
        fixture.site.end_pod("j-worker-0", "1").await;
        fixture.site.wait_for_running_attempt("j", 2).await;
        fixture.site.submit("k", 8, 1).await;
        fixture.site.wait_for_phase("k", JobPhase::Running).await;
        fixture.site.delete::<TrainingJob>("j").await;
        fixture.site.wait_for_pod_count("j", 0).await;
    };
    tokio::select! {
        () = cutting => {}
        () = working => {}
    }
    fixture.site.wait_for_whole_gang("k", 8).await;
    let status = fixture
        .site
        .wait_for_phase("k", JobPhase::Running)
        .await
        .status;
    assert_eq!(status.unwrap().attempt, Some(1));
    fixture.operator.assert_runs();
}
