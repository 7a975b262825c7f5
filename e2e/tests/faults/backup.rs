//! etcd is put back to an earlier time, as from a backup.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::control_plane::{Component, ControlPlane, Signal};
use trellis_e2e::jobs::{SOON, uids};
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::site::Site;
use trellis_e2e::wait::eventually;

use super::program;

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

/// The operator has seen later resource versions than the restored etcd has. Its watches would show
/// nothing for long, and its cache holds changes that never happened.
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
    operator::takes_jobs(&control_plane).await.unwrap();
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
