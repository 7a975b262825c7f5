//! The API server stops and starts again, with gangs in every phase.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::control_plane::{Component, ControlPlane, ProcessSignal};
use trellis_e2e::operator;
use trellis_e2e::proxy::{ProxyFault, Verb};
use trellis_e2e::site::jobs::{SOON, pod_uids};
use trellis_e2e::site::pod_history::PodHistory;
use trellis_e2e::wait::eventually;

use crate::{fixtures::FaultFixture, paused_commit};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gangs_survive_an_api_server_restart() {
    let FaultFixture {
        control_plane,
        mut operator,
        proxy,
        site,
    } = FaultFixture::new("outage", 3).await;
    let history = PodHistory::record(site.api::<Pod>());
    site.submit("runs", 8, 1).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    let ran = pod_uids(&site.wait_for_whole_gang("runs", 8).await);
    // The creates of the second half of the gang fail repeatedly with 503.
    paused_commit::pause_commit(&proxy, &site, "commits", (4, 8), ProxyFault::unavailable()).await;
    let begun = pod_uids(&site.list_pods("commits").await);
    site.submit("waits", 2, 8).await;
    site.wait_for_phase("waits", JobPhase::Queued).await;

    control_plane
        .signal(Component::ApiServer, ProcessSignal::Kill)
        .unwrap();
    proxy.remove_faults();
    control_plane.restart(Component::ApiServer).await.unwrap();

    site.wait_for_phase("commits", JobPhase::Running).await;
    // The operator completes the gang and does not roll it back: the earlier pods still exist.
    let committed = pod_uids(&site.wait_for_whole_gang("commits", 8).await);
    assert!(
        committed.is_superset(&begun),
        "the gang \"commits\" was rolled back"
    );
    assert_eq!(pod_uids(&site.wait_for_whole_gang("runs", 8).await), ran);
    let pending = site.wait_for_phase("waits", JobPhase::Queued).await;
    assert_eq!(site.list_pods("waits").await.len(), 0);
    assert_eq!(pending.status.unwrap().attempt, Some(1));
    // The operator decides and writes as before: GPUs become free, and the pending job starts.
    site.delete::<TrainingJob>("runs").await;
    site.wait_for_phase("waits", JobPhase::Running).await;
    site.wait_for_whole_gang("waits", 2).await;
    for name in ["commits", "waits"] {
        let status = site
            .wait_for_phase(name, JobPhase::Running)
            .await
            .status
            .unwrap();
        assert_eq!(
            (status.attempt, status.restarts, status.disruptions),
            (Some(1), Some(0), Some(0)),
            "{name}"
        );
    }
    assert!(
        history.recreated_pods().is_empty(),
        "{:?}",
        history.recreated_pods()
    );
    operator.assert_runs();
}

/// A newly started API server does not know the roles yet, so it refuses allowed requests for a
/// moment. In this test, one right is also really missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gangs_survive_a_moment_without_a_right() {
    let FaultFixture {
        control_plane,
        operator: _operator,
        proxy,
        site,
    } = FaultFixture::new("rights", 1).await;
    paused_commit::pause_commit(&proxy, &site, "j", (4, 8), ProxyFault::Hold).await;
    let begun = pod_uids(&site.list_pods("j").await);

    let roles: Api<ClusterRole> = Api::all(control_plane.client());
    let mut role = roles.get(operator::SERVICE_ACCOUNT).await.unwrap();
    for rule in role.rules.iter_mut().flatten() {
        if rule.resources.iter().flatten().any(|r| r == "pods") {
            rule.verbs.retain(|verb| verb != "create");
        }
    }
    roles
        .replace(operator::SERVICE_ACCOUNT, &PostParams::default(), &role)
        .await
        .unwrap();
    wait_for_pod_create_right(&control_plane, false).await;
    proxy.reset_counts();
    proxy.remove_faults();
    eventually(SOON, || async {
        let creates = proxy.counts();
        let creates = creates.sum(|k| k.verb == Verb::Create && k.resource == "pods");
        ensure!(creates.failures > 0, "no request was refused");
        Ok(())
    })
    .await
    .unwrap();
    operator::install_chart_objects(&control_plane)
        .await
        .unwrap();
    wait_for_pod_create_right(&control_plane, true).await;

    let now = pod_uids(&site.wait_for_whole_gang("j", 8).await);
    assert!(now.is_superset(&begun), "the gang was rolled back");
    let status = site
        .wait_for_phase("j", JobPhase::Running)
        .await
        .status
        .unwrap();
    assert_eq!(status.attempt, Some(1));
}

/// Waits until the API server allows, or does not allow, the operator to create pods.
async fn wait_for_pod_create_right(control_plane: &ControlPlane, may: bool) {
    // The API server refuses the writes of any other pod.
    let client = operator::client(control_plane, operator::POD)
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
