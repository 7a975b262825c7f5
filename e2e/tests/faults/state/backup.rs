//! etcd is restored from a backup.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{Component, ControlPlane, ProcessSignal};
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, pod_uids};
use trellis_e2e::wait::eventually;
use trellis_verify::Rule;

use crate::operator_program;

/// Stops etcd, copies its data from one folder to another, and starts it again.
async fn with_etcd_stopped(control_plane: &ControlPlane, copy: impl FnOnce(&Path, &Path)) {
    let folder = control_plane.folder();
    let (data, backup) = (folder.join("etcd"), folder.join("etcd-backup"));
    control_plane
        .signal(Component::Etcd, ProcessSignal::Kill)
        .unwrap();
    copy(&data, &backup);
    control_plane.restart(Component::Etcd).await.unwrap();
}

fn copy_folder(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(copied.unwrap().success());
}

/// The operator has seen later resource versions than the restored etcd contains. Its watches would
/// show no events for a long time, and its cache contains changes that were undone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_accepts_the_state_of_a_restored_etcd() {
    let control_plane = operator::start_control_plane().await.unwrap();
    // Both operators run in one pod, which the backup has.
    let kubeconfig = operator::kubeconfig(&control_plane, operator::POD)
        .await
        .unwrap();
    // The lease outlives the outages.
    let start = |name| {
        let launch = LaunchOptions::with_name(name).lease_seconds(20);
        Operator::launch_with_options(&control_plane, operator_program(), &kubeconfig, &launch)
            .unwrap()
    };
    let mut first = start("first");
    let site = TestSite::new(&control_plane, "restored", NodeTemplate::new(1).gpus(8)).await;
    // The watches of the oracle also show no events for a while, and keep the job `late`.
    site.expect_broken(Rule::OverCapacity);
    site.submit("early", 1, 4).await;
    site.wait_for_phase("early", JobPhase::Running).await;
    let early = pod_uids(&site.wait_for_whole_gang("early", 1).await);
    with_etcd_stopped(&control_plane, copy_folder).await;

    // The job uses the rest of the node, after the time of the backup.
    eventually(SOON, || site.check_whole_gang("early", 1))
        .await
        .unwrap();
    site.submit("late", 1, 4).await;
    site.wait_for_phase("late", JobPhase::Running).await;
    first.assert_runs();

    control_plane
        .signal(Component::ApiServer, ProcessSignal::Kill)
        .unwrap();
    with_etcd_stopped(&control_plane, |data, backup| {
        std::fs::remove_dir_all(data).unwrap();
        copy_folder(backup, data);
    })
    .await;
    control_plane.restart(Component::ApiServer).await.unwrap();

    // The state of the old operator is useless, so a new one starts.
    eventually(SOON, || {
        let ended = first.try_wait();
        async move {
            ensure!(ended?.is_some(), "the operator keeps its outdated state");
            Ok(())
        }
    })
    .await
    .unwrap();
    let log = first.read_log().unwrap();
    assert!(log.contains("put back to an earlier time"), "{log}");

    let mut second = start("second");
    assert!(site.list_pods("late").await.is_empty());
    operator::wait_until_jobs_accepted(&control_plane)
        .await
        .unwrap();
    // Half of the node is free.
    site.submit("large", 1, 8).await;
    site.submit("next", 1, 4).await;
    eventually(3 * SOON, || site.check_whole_gang("next", 1))
        .await
        .unwrap();
    assert!(site.list_pods("large").await.is_empty());
    assert_eq!(pod_uids(&site.wait_for_whole_gang("early", 1).await), early);
    second.assert_runs();
}
