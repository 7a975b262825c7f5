//! Watches that go blind: what was missed meanwhile is found out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::jobs::{Jobs, SOON, uids};
use trellis_e2e::proxy::{Fault, Proxy, Request, Verb};
use trellis_e2e::wait::{eventually, wait_gone};

use super::scene::Scene;

/// A gang of two runs.
async fn running() -> Scene {
    let seen = Scene::new("blind", 3).await;
    seen.site.submit("j", 2, 8).await;
    seen.site.reaches("j", JobPhase::Running).await;
    seen
}

fn pods(request: &Request) -> bool {
    request.resource == "pods"
}

fn jobs(request: &Request) -> bool {
    request.resource == "trainingjobs.trellis.dev"
}

/// Takes a pod away by hand, at once, and waits until it is gone.
async fn take_away(jobs: &Jobs, pod: &str) {
    let api = jobs.api::<Pod>();
    api.delete(pod, &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    wait_gone(&api, pod, SOON).await.unwrap();
}

/// The gang is placed anew for a pod that was taken away: a disruption, and no restart.
async fn is_placed_anew(seen: &mut Scene, attempt: i64) {
    let job = seen.site.runs_again("j", attempt).await;
    let status = job.status.unwrap();
    assert_eq!(
        (status.restarts, status.disruptions),
        (Some(0), Some(attempt - 1))
    );
    seen.site.whole("j", 2).await;
    seen.operator.assert_runs();
}

/// Each loss of a pod that the operator did not see, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_is_deleted_behind_a_blind_watch_is_found_missing() {
    let mut seen = running().await;

    // Stalled: the connection is open, and nothing comes.
    seen.proxy.stall_watches(pods);
    take_away(&seen.site, "j-worker-0").await;
    // A watch that stalls holds up no other: another job is placed meanwhile.
    seen.site.submit("other", 1, 8).await;
    seen.site.whole("other", 1).await;
    seen.proxy.resume_watches();
    is_placed_anew(&mut seen, 2).await;
    seen.site.reaches("other", JobPhase::Running).await;

    // Closed, and where it was has been compacted away: it lists anew.
    let (proxy, site) = (&seen.proxy, &seen.site);
    tokio::join!(relist(proxy, pods), take_away(site, "j-worker-1"),);
    is_placed_anew(&mut seen, 3).await;

    // Lost events: only a list shows what is gone.
    seen.proxy.lose_events(|request, _| pods(request));
    take_away(&seen.site, "j-worker-0").await;
    take_away(&seen.site, "j-worker-1").await;
    relist(&seen.proxy, pods).await;
    is_placed_anew(&mut seen, 4).await;
}

/// Ends the watches that `matches`, answers those that follow with 410 until the kind is listed
/// anew, and heals.
async fn relist(proxy: &Proxy, matches: fn(&Request) -> bool) {
    let expired = AtomicBool::new(false);
    let listed = Arc::new(AtomicBool::new(false));
    let seen = listed.clone();
    proxy.on_request(move |request| {
        if !matches(request) {
            return Fault::Pass;
        }
        if request.verb == Verb::Watch {
            expired.store(true, Ordering::SeqCst);
            return Fault::Expired;
        }
        // A list precedes the first watch too. Only a list after an expired watch counts.
        if request.verb == Verb::List && expired.load(Ordering::SeqCst) {
            seen.store(true, Ordering::SeqCst);
        }
        Fault::Pass
    });
    proxy.cut_watches(matches);
    eventually(SOON, || async {
        let listed = listed.load(Ordering::SeqCst);
        ensure!(listed, "nothing is listed anew");
        Ok(())
    })
    .await
    .unwrap();
    proxy.heal();
}

/// The job is replaced by another of its name while the watch loses events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_replaced_behind_a_blind_watch_starts_anew() {
    let mut seen = running().await;
    let old = seen.site.api::<TrainingJob>().get("j").await.unwrap();
    let before = uids(&seen.site.whole("j", 2).await);
    seen.proxy.lose_events(|request, _| jobs(request));
    seen.site.delete::<TrainingJob>("j").await;
    wait_gone(&seen.site.api::<TrainingJob>(), "j", SOON)
        .await
        .unwrap();
    let new = seen.site.submit("j", 2, 8).await;
    assert_ne!(old.metadata.uid, new.metadata.uid);
    relist(&seen.proxy, jobs).await;
    seen.site.runs_again("j", 1).await;
    let after = seen.site.whole("j", 2).await;
    assert!(uids(&after).is_disjoint(&before));
    for pod in after {
        let owners = pod.metadata.owner_references.unwrap_or_default();
        assert_eq!(Some(&owners[0].uid), new.metadata.uid.as_ref());
    }
    seen.operator.assert_runs();
}

/// All watches are closed, again and again, while the operator works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_are_cut_all_the_time_delay_and_break_nothing() {
    let mut seen = running().await;
    let cutting = async {
        loop {
            seen.proxy.cut_watches(|_| true);
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    let working = async {
        seen.site.exit("j-worker-0", "1").await;
        seen.site.runs_again("j", 2).await;
        seen.site.submit("k", 8, 1).await;
        seen.site.reaches("k", JobPhase::Running).await;
        seen.site.delete::<TrainingJob>("j").await;
        seen.site.pods_become("j", 0).await;
    };
    tokio::select! {
        () = cutting => {}
        () = working => {}
    }
    seen.site.whole("k", 8).await;
    let status = seen.site.reaches("k", JobPhase::Running).await.status;
    assert_eq!(status.unwrap().attempt, Some(1));
    seen.operator.assert_runs();
}
