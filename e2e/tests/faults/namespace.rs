//! A namespace with gangs in every phase is deleted.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use trellis_api::job::JobPhase;
use trellis_e2e::proxy::ProxyFault;
use trellis_e2e::site::jobs::pod_uids;
use trellis_e2e::site::namespace::TestNamespace;
use trellis_e2e::wait::wait_until_deleted;

use super::{fixtures::FaultFixture, paused_commit};

/// Longest time until a namespace with running pods is deleted.
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);
/// Greatest number of warnings about a namespace that is being deleted: one or two for each write
/// in flight.
const MAX_WARNINGS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_is_deleted_without_affecting_other_namespaces() {
    let FaultFixture {
        control_plane,
        mut operator,
        proxy,
        site,
    } = FaultFixture::new("stays", 3).await;
    let namespace = TestNamespace::create(&control_plane, "goes").await.unwrap();
    let going = site.jobs_in(&namespace);
    site.submit("beside", 8, 1).await;
    site.wait_for_phase("beside", JobPhase::Running).await;
    let other_pods = pod_uids(&site.wait_for_whole_gang("beside", 8).await);
    going.submit("runs", 8, 1).await;
    going.wait_for_phase("runs", JobPhase::Running).await;
    paused_commit::pause_commit(&proxy, &going, "commits", (4, 8), ProxyFault::Hold).await;
    going.submit("waits", 1, 8).await;
    going.wait_for_phase("waits", JobPhase::Queued).await;
    site.submit("next", 2, 8).await;
    site.wait_for_phase("next", JobPhase::Queued).await;

    let namespaces: Api<Namespace> = Api::all(control_plane.client());
    namespaces
        .delete(namespace.name(), &DeleteParams::default())
        .await
        .unwrap();
    let began = Instant::now();
    // The requests in flight arrive now, and the API server refuses them.
    proxy.remove_faults();
    // The GPUs are free as soon as the pods are gone, and the pending job gets them.
    site.wait_for_phase("next", JobPhase::Running).await;
    site.wait_for_whole_gang("next", 2).await;
    wait_until_deleted(&namespaces, namespace.name(), DELETION_TIMEOUT)
        .await
        .unwrap();
    println!("gone after {:?}", began.elapsed());

    let all: Api<Pod> = Api::all(control_plane.client());
    let remaining = all.list(&ListParams::default()).await.unwrap();
    let remaining = remaining
        .into_iter()
        .filter(|p| p.metadata.namespace.as_deref() == Some(namespace.name()));
    assert_eq!(remaining.count(), 0);
    assert_eq!(
        pod_uids(&site.wait_for_whole_gang("beside", 8).await),
        other_pods
    );
    // The operator does not retry writes in a deleted namespace.
    proxy.reset_counts();
    let quiet = proxy.wait_until_quiet(Duration::from_secs(2)).await;
    let writes = quiet.sum(|key| key.is_write() && !key.resource.starts_with("leases"));
    assert_eq!(writes.failures, 0, "{quiet}");
    let log = operator.read_log().unwrap();
    let warnings: Vec<_> = log
        .lines()
        .filter(|l| l.contains(" WARN ") || l.contains("ERROR"))
        .filter(|l| l.contains(namespace.name()))
        .collect();
    assert!(warnings.len() <= MAX_WARNINGS, "{}", warnings.join("\n"));
    operator.assert_runs();
}
