//! A namespace goes, with gangs in every phase in it.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use trellis_api::job::JobPhase;
use trellis_e2e::jobs::uids;
use trellis_e2e::namespace::TestNamespace;
use trellis_e2e::proxy::Fault;
use trellis_e2e::wait::wait_gone;

use super::{held, scene::Scene};

/// How long a namespace with running pods may take to go.
const GONE: Duration = Duration::from_secs(120);
/// Lines that warn of what fails in a namespace that goes: one or two for each write that was
/// under way, and no storm.
const WARNINGS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_goes_and_others_go_on() {
    let Scene {
        control_plane,
        mut operator,
        proxy,
        site,
    } = Scene::new("stays", 3).await;
    let namespace = TestNamespace::create(&control_plane, "goes").await.unwrap();
    let going = site.jobs_of(&namespace);
    site.submit("beside", 8, 1).await;
    site.reaches("beside", JobPhase::Running).await;
    let beside = uids(&site.whole("beside", 8).await);
    going.submit("runs", 8, 1).await;
    going.reaches("runs", JobPhase::Running).await;
    held::in_its_commit(&proxy, &going, "commits", (4, 8), Fault::Hold).await;
    going.submit("waits", 1, 8).await;
    going.reaches("waits", JobPhase::Queued).await;
    site.submit("next", 2, 8).await;
    site.reaches("next", JobPhase::Queued).await;

    let namespaces: Api<Namespace> = Api::all(control_plane.client());
    namespaces
        .delete(namespace.name(), &DeleteParams::default())
        .await
        .unwrap();
    let began = Instant::now();
    // The requests in flight arrive now, and the API server refuses them.
    proxy.heal();
    // The GPUs are free as soon as the pods are gone, and the pending job gets them.
    site.reaches("next", JobPhase::Running).await;
    site.whole("next", 2).await;
    wait_gone(&namespaces, namespace.name(), GONE)
        .await
        .unwrap();
    println!("gone after {:?}", began.elapsed());

    let all: Api<Pod> = Api::all(control_plane.client());
    let left = all.list(&ListParams::default()).await.unwrap();
    let left = left
        .into_iter()
        .filter(|p| p.metadata.namespace.as_deref() == Some(namespace.name()));
    assert_eq!(left.count(), 0);
    assert_eq!(uids(&site.whole("beside", 8).await), beside);
    // Nothing is tried again and again in a namespace that is no more.
    proxy.reset_counts();
    let quiet = proxy.counts_when_quiet(Duration::from_secs(2)).await;
    let writes = quiet.sum(|key| key.is_write() && !key.resource.starts_with("leases"));
    assert_eq!(writes.failures, 0, "{quiet}");
    let log = operator.log().unwrap();
    let warnings: Vec<_> = log
        .lines()
        .filter(|l| l.contains(" WARN ") || l.contains("ERROR"))
        .filter(|l| l.contains(namespace.name()))
        .collect();
    assert!(warnings.len() <= WARNINGS, "{}", warnings.join("\n"));
    operator.assert_runs();
}
