//! Watches that go blind: what was missed meanwhile is found out.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::control_plane::{Component, ControlPlane, Signal};
use trellis_e2e::jobs::{Jobs, SOON, uids};
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::proxy::{Fault, Proxy, Request, Verb};
use trellis_e2e::site::Site;
use trellis_e2e::wait::{eventually, wait_gone};

use super::{program, scene::Scene};

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
        // Before a watch goes on, a list tells how far history has come: that is none of these.
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

/// While nobody looked, the job was replaced by another of its name.
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

/// A list whose answer never comes, as behind a load balancer that has lost the connection: the
/// operator leads, and would lead for ever without doing anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_is_never_answered_is_asked_for_again() {
    let control_plane = operator::control_plane().await.unwrap();
    let proxy = Proxy::start(&control_plane).await.unwrap();
    let hung = AtomicBool::new(false);
    proxy.on_request(move |request| {
        let lists = pods(request) && request.verb == Verb::List;
        if lists && !hung.swap(true, Ordering::SeqCst) {
            Fault::Hang
        } else {
            Fault::Pass
        }
    });
    let launch = Launch::named("operator").lease_seconds(60);
    let _operator = Operator::behind(&control_plane, program(), &proxy, &launch)
        .await
        .unwrap();
    let site = Site::new(&control_plane, "hung", Nodes::new(1).gpus(8)).await;
    site.submit("j", 2, 1).await;
    eventually(2 * SOON, || site.try_whole("j", 2))
        .await
        .unwrap();
}

/// Stops etcd, has its data copied from one folder to another, and starts it again.
async fn with_etcd_stopped(control_plane: &ControlPlane, copy: impl FnOnce(&Path, &Path)) {
    let folder = control_plane.folder();
    let (data, backup) = (folder.join("etcd"), folder.join("etcd-backup"));
    control_plane.signal(Component::Etcd, Signal::Kill).unwrap();
    copy(&data, &backup);
    control_plane.restart(Component::Etcd).await.unwrap();
}

fn copy_folder(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(copied.unwrap().success());
}

/// What the operator has seen last is in the future: its watches would show nothing for long, and
/// what it knows has never happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_is_restored_from_a_backup_is_believed() {
    let control_plane = operator::control_plane().await.unwrap();
    let kubeconfig = control_plane
        .service_account_kubeconfig(operator::NAMESPACE, operator::ACCOUNT)
        .await
        .unwrap();
    // The lease outlives the outages.
    let start = |name| {
        let launch = Launch::named(name).lease_seconds(20);
        Operator::launch(&control_plane, program(), &kubeconfig, &launch).unwrap()
    };
    let mut first = start("first");
    let site = Site::new(&control_plane, "restored", Nodes::new(1).gpus(8)).await;
    site.submit("early", 1, 4).await;
    site.reaches("early", JobPhase::Running).await;
    let early = uids(&site.whole("early", 1).await);
    with_etcd_stopped(&control_plane, copy_folder).await;

    // The rest of the node, in a history that will not have been.
    eventually(SOON, || site.try_whole("early", 1))
        .await
        .unwrap();
    site.submit("late", 1, 4).await;
    site.reaches("late", JobPhase::Running).await;
    first.assert_runs();

    control_plane
        .signal(Component::ApiServer, Signal::Kill)
        .unwrap();
    with_etcd_stopped(&control_plane, |data, backup| {
        std::fs::remove_dir_all(data).unwrap();
        copy_folder(backup, data);
    })
    .await;
    control_plane.restart(Component::ApiServer).await.unwrap();

    // Nothing that it knows is worth anything: another begins anew.
    eventually(SOON, || {
        let ended = first.ended();
        async move {
            ensure!(ended?.is_some(), "it goes on with what it knew");
            Ok(())
        }
    })
    .await
    .unwrap();
    let said = first.log().unwrap();
    assert!(said.contains("put back to an earlier time"), "{said}");

    let mut second = start("second");
    assert!(site.pods("late").await.is_empty());
    // Half of the node is free, and half is not.
    site.submit("large", 1, 8).await;
    site.submit("next", 1, 4).await;
    eventually(3 * SOON, || site.try_whole("next", 1))
        .await
        .unwrap();
    assert!(site.pods("large").await.is_empty());
    assert_eq!(uids(&site.whole("early", 1).await), early);
    second.assert_runs();
}
