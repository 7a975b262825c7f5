//! The API server goes away and comes back, with gangs in every phase.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::control_plane::{Component, ControlPlane, Signal};
use trellis_e2e::history::PodHistory;
use trellis_e2e::jobs::{SOON, uids};
use trellis_e2e::operator;
use trellis_e2e::proxy::{Fault, Verb};
use trellis_e2e::wait::eventually;

use super::{held, scene::Scene};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_api_server_tears_no_gang() {
    let Scene {
        control_plane,
        mut operator,
        proxy,
        site,
    } = Scene::new("outage", 3).await;
    let history = PodHistory::record(site.api::<Pod>());
    site.submit("runs", 8, 1).await;
    site.reaches("runs", JobPhase::Running).await;
    let ran = uids(&site.whole("runs", 8).await);
    // 503, again and again, for the second half of the gang.
    held::in_its_commit(&proxy, &site, "commits", (4, 8), Fault::unavailable()).await;
    let begun = uids(&site.pods("commits").await);
    site.submit("waits", 2, 8).await;
    site.reaches("waits", JobPhase::Queued).await;

    control_plane
        .signal(Component::ApiServer, Signal::Kill)
        .unwrap();
    proxy.heal();
    control_plane.restart(Component::ApiServer).await.unwrap();

    site.reaches("commits", JobPhase::Running).await;
    // Gone on with, and not undone: what was created before is still there.
    let committed = uids(&site.whole("commits", 8).await);
    assert!(committed.is_superset(&begun), "commits was undone");
    assert_eq!(uids(&site.whole("runs", 8).await), ran);
    let waits = site.reaches("waits", JobPhase::Queued).await;
    assert_eq!(site.pods("waits").await.len(), 0);
    assert_eq!(waits.status.unwrap().attempt, Some(1));
    // The operator decides and writes as before: GPUs become free, and the pending job starts.
    site.delete::<TrainingJob>("runs").await;
    site.reaches("waits", JobPhase::Running).await;
    site.whole("waits", 2).await;
    for name in ["commits", "waits"] {
        let status = site.reaches(name, JobPhase::Running).await.status.unwrap();
        assert_eq!(
            (status.attempt, status.restarts, status.disruptions),
            (Some(1), Some(0), Some(0)),
            "{name}"
        );
    }
    assert!(history.twice().is_empty(), "{:?}", history.twice());
    operator.assert_runs();
}

/// An API server that has just started does not know the roles yet, so it refuses what it allows a
/// moment later. In this test one right is really missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_missing_for_a_moment_undoes_no_gang() {
    let Scene {
        control_plane,
        operator: _operator,
        proxy,
        site,
    } = Scene::new("rights", 1).await;
    held::in_its_commit(&proxy, &site, "j", (4, 8), Fault::Hold).await;
    let begun = uids(&site.pods("j").await);

    let roles: Api<ClusterRole> = Api::all(control_plane.client());
    let mut role = roles.get(operator::ACCOUNT).await.unwrap();
    for rule in role.rules.iter_mut().flatten() {
        if rule.resources.iter().flatten().any(|r| r == "pods") {
            rule.verbs.retain(|verb| verb != "create");
        }
    }
    roles
        .replace(operator::ACCOUNT, &PostParams::default(), &role)
        .await
        .unwrap();
    may_create_pods(&control_plane, false).await;
    proxy.reset_counts();
    proxy.heal();
    eventually(SOON, || async {
        let creates = proxy.counts();
        let creates = creates.sum(|k| k.verb == Verb::Create && k.resource == "pods");
        ensure!(creates.failures > 0, "nothing was refused");
        Ok(())
    })
    .await
    .unwrap();
    operator::install(&control_plane).await.unwrap();
    may_create_pods(&control_plane, true).await;

    let now = uids(&site.whole("j", 8).await);
    assert!(now.is_superset(&begun), "it was undone");
    let status = site.reaches("j", JobPhase::Running).await.status.unwrap();
    assert_eq!(status.attempt, Some(1));
}

/// Waits until the API server sees that the operator may, or may not, create pods.
async fn may_create_pods(control_plane: &ControlPlane, may: bool) {
    let client = control_plane
        .service_account_client(operator::NAMESPACE, operator::ACCOUNT)
        .await
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "may"},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }))
    .unwrap();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually(SOON, || async {
        let answer = pods.create(&dry_run, &pod).await;
        ensure!(answer.is_ok() == may, "{answer:?}");
        Ok(())
    })
    .await
    .unwrap();
}
