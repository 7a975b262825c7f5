//! A gang that stays in the middle of its commit.

use anyhow::ensure;
use trellis_e2e::proxy::{Proxy, ProxyFault, Request, Verb};
use trellis_e2e::site::jobs::{SOON, TestJobs};
use trellis_e2e::wait::eventually;

/// Returns true if a request creates a pod of `job` with an index of at least `from`.
pub(crate) fn is_pod_create(request: &Request, job: &str, from: usize) -> bool {
    let prefix = format!("{job}-worker-");
    request.verb == Verb::Create
        && request.resource == "pods"
        && !request.dry_run
        && request.object_name().is_some_and(|name| {
            let index = name.strip_prefix(&prefix).and_then(|i| i.parse().ok());
            index.is_some_and(|index: usize| index >= from)
        })
}

/// Submits a gang `name` of `total` pods with one GPU each. The creates of all pods after the first
/// `created` ones get the fault. Returns when these exist: the gang stays in its commit until the
/// faults are removed.
pub(crate) async fn pause_commit(
    proxy: &Proxy,
    jobs: &TestJobs,
    name: &'static str,
    (created, total): (usize, u32),
    fault: ProxyFault,
) {
    proxy.on_request(move |request| {
        if is_pod_create(request, name, created) {
            fault
        } else {
            ProxyFault::Pass
        }
    });
    jobs.submit(name, total, 1).await;
    eventually(SOON, || async {
        let now = jobs.list_pods(name).await.len();
        ensure!(now == created, "{now} pods of {name}, not {created}");
        Ok(())
    })
    .await
    .unwrap();
}
