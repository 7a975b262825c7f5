//! Two operators, one lease.

pub(super) mod epoch;
pub(super) mod fence;
pub(super) mod late_writes;
pub(super) mod takeover;

use std::time::{Duration, Instant};

use anyhow::ensure;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{ControlPlane, ProcessSignal};
use trellis_e2e::helm;
use trellis_e2e::operator::{self, LEASE_NAME, LaunchOptions, NAMESPACE, Operator};
use trellis_e2e::proxy::{Proxy, ProxyFault, RequestCounts};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, phase, pod_uids};
use trellis_e2e::site::pod_history::PodHistory;
use trellis_e2e::wait::{eventually, wait_for};

use super::{operator_program, paused_commit};

/// The lease duration of these tests. Even on a busy machine, an operator must only lose its lease
/// if its connection is cut.
const LEASE_DURATION: Duration = Duration::from_secs(5);
/// Longest time of a request of an operator.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(15);
/// Greatest delay of a new leader on a busy machine.
const TAKEOVER_MARGIN: Duration = Duration::from_secs(15);
/// Longest time until a new leader has filled its caches and placed a job, on a busy machine.
const PLACEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The default lease duration of the chart.
fn chart_lease_duration() -> Duration {
    let values = std::fs::read_to_string(helm::chart_folder().join("values.yaml")).unwrap();
    let values: serde_json::Value = serde_saphyr::from_str(&values).unwrap();
    Duration::from_secs(values["operator"]["leaseSeconds"].as_u64().unwrap())
}

/// An operator and its own proxy.
struct LeaseCandidate {
    operator: Operator,
    proxy: Proxy,
}

async fn start_candidate(control_plane: &ControlPlane, name: &str) -> LeaseCandidate {
    start_candidate_with_lease(control_plane, name, LEASE_DURATION).await
}

async fn start_candidate_with_lease(
    control_plane: &ControlPlane,
    name: &str,
    lease: Duration,
) -> LeaseCandidate {
    let launch = LaunchOptions::with_name(name)
        .pod(name)
        .lease_seconds(lease.as_secs());
    let (operator, proxy) =
        Operator::start_behind_new_proxy(control_plane, operator_program(), &launch)
            .await
            .unwrap();
    LeaseCandidate { operator, proxy }
}

/// Returns the process id of the operator that holds the lease.
async fn lease_holder(control_plane: &ControlPlane) -> anyhow::Result<u32> {
    let api: Api<Lease> = Api::namespaced(control_plane.client(), NAMESPACE);
    let spec = api.get(LEASE_NAME).await?.spec.unwrap_or_default();
    let identity = spec.holder_identity.unwrap_or_default();
    // <host>_<process id>_<time>
    let id = identity.rsplit('_').nth(1).unwrap_or_default();
    Ok(id.parse()?)
}

/// Waits until an operator holds the lease.
pub(super) async fn wait_until_leading(control_plane: &ControlPlane, operator: &Operator) {
    eventually(SOON, || async {
        let holder = lease_holder(control_plane).await?;
        ensure!(holder == operator.process_id(), "process {holder} leads");
        Ok(())
    })
    .await
    .unwrap();
}

/// Submits a job. Asserts that `next` takes the lease in time after the fault, and runs the job.
async fn check_takeover(
    (control_plane, next): (&ControlPlane, &Operator),
    (site, name): (&TestSite, &str),
    fault: Instant,
    lease: Duration,
) {
    site.submit(name, 8, 1).await;
    // A candidate may see the last renewal a fifth of the lease late.
    let bound = lease / 5 + lease + MAX_REQUEST_TIME.min(lease) + TAKEOVER_MARGIN;
    let remaining = bound.saturating_sub(fault.elapsed());
    let takeover = eventually(remaining, || async {
        let holder = lease_holder(control_plane).await?;
        ensure!(holder == next.process_id(), "process {holder} leads");
        Ok(())
    });
    let takeover = takeover.await;
    takeover.unwrap_or_else(|error| panic!("{bound:?} after the fault: {error:#}"));
    let is_running = |job: &TrainingJob| phase(job) == Some(JobPhase::Running);
    wait_for(&site.api(), name, PLACEMENT_TIMEOUT, is_running)
        .await
        .unwrap();
}

/// Counts the writes that the API server accepted, without events.
fn accepted_writes(counts: &RequestCounts) -> u64 {
    counts
        .sum(|key| key.is_write() && !key.resource.starts_with("events"))
        .successes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_operator_takes_over_when_the_leader_dies() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let lease = chart_lease_duration();
    let (a, b) = tokio::join!(
        start_candidate_with_lease(&control_plane, "a", lease),
        start_candidate_with_lease(&control_plane, "b", lease)
    );
    let first = eventually(SOON, || lease_holder(&control_plane))
        .await
        .unwrap();
    let (mut leader, mut other) = if first == a.operator.process_id() {
        (a, b)
    } else {
        (b, a)
    };
    let site = TestSite::new(&control_plane, "two", NodeTemplate::new(2).gpus(8)).await;
    let history = PodHistory::record(site.api::<Pod>());
    site.submit("runs", 8, 1).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    let ran = pod_uids(&site.wait_for_whole_gang("runs", 8).await);
    assert_eq!(
        accepted_writes(&other.proxy.counts()),
        0,
        "{}",
        other.proxy.counts()
    );
    assert!(accepted_writes(&leader.proxy.counts()) > 8);

    let killed = Instant::now();
    leader.operator.kill().unwrap();
    let next = (&control_plane, &other.operator);
    check_takeover(next, (&site, "next"), killed, lease).await;
    site.wait_for_whole_gang("next", 8).await;
    assert_eq!(pod_uids(&site.wait_for_whole_gang("runs", 8).await), ran);
    // The new leader takes over the gang of the dead one: a failed rank restarts it.
    site.end_pod("runs-worker-3", "1").await;
    site.wait_for_running_attempt("runs", 2).await;
    site.wait_for_whole_gang("runs", 8).await;
    let twice = history.recreated_pods();
    assert!(
        twice.keys().all(|pod| pod.starts_with("runs-")),
        "{twice:?}"
    );
    other.operator.assert_runs();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_resumed_after_its_lease_expired_writes_nothing() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let mut frozen = start_candidate(&control_plane, "frozen").await;
    wait_until_leading(&control_plane, &frozen.operator).await;
    let next = start_candidate(&control_plane, "next").await;
    let site = TestSite::new(&control_plane, "frozen", NodeTemplate::new(3).gpus(8)).await;
    let history = PodHistory::record(site.api::<Pod>());
    site.submit("runs", 8, 1).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    let ran = pod_uids(&site.wait_for_whole_gang("runs", 8).await);
    paused_commit::pause_commit(
        &frozen.proxy,
        &site,
        "mid",
        (4, 8),
        ProxyFault::unavailable(),
    )
    .await;

    let since = Instant::now();
    frozen.operator.signal(ProcessSignal::Stop).unwrap();
    frozen.proxy.remove_faults();
    let next = (&control_plane, &next.operator);
    check_takeover(next, (&site, "new"), since, LEASE_DURATION).await;
    // The other operator completes the unfinished gang, and places the jobs that were submitted
    // meanwhile.
    for name in ["mid", "new"] {
        site.wait_for_phase(name, JobPhase::Running).await;
        site.wait_for_whole_gang(name, 8).await;
    }
    tokio::time::sleep((2 * LEASE_DURATION).saturating_sub(since.elapsed())).await;

    frozen.proxy.reset_counts();
    let before = gang_versions(&site).await;
    frozen.operator.signal(ProcessSignal::Continue).unwrap();
    wait_for_failed_exit(&mut frozen.operator).await;
    let counts = frozen.proxy.counts();
    assert_eq!(accepted_writes(&counts), 0, "{counts}");
    assert_eq!(gang_versions(&site).await, before);
    assert_eq!(pod_uids(&site.wait_for_whole_gang("runs", 8).await), ran);
    for name in ["runs", "mid", "new"] {
        site.wait_for_whole_gang(name, 8).await;
    }
    assert!(
        history.recreated_pods().is_empty(),
        "{:?}",
        history.recreated_pods()
    );
}

/// The network between the leader and the API server fails in the middle of a commit.
async fn check_isolated_leader(cut: ProxyFault) {
    let control_plane = operator::start_control_plane().await.unwrap();
    let mut alone = start_candidate(&control_plane, "alone").await;
    wait_until_leading(&control_plane, &alone.operator).await;
    let next = start_candidate(&control_plane, "next").await;
    let site = TestSite::new(&control_plane, "alone", NodeTemplate::new(3).gpus(8)).await;
    let history = PodHistory::record(site.api::<Pod>());
    site.submit("runs", 8, 1).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    let ran = pod_uids(&site.wait_for_whole_gang("runs", 8).await);
    paused_commit::pause_commit(&alone.proxy, &site, "mid", (4, 8), cut).await;

    let since = Instant::now();
    alone.proxy.stall_watches(|_| true);
    alone.proxy.on_request(move |_| cut);
    let next = (&control_plane, &next.operator);
    check_takeover(next, (&site, "new"), since, LEASE_DURATION).await;
    for name in ["mid", "new"] {
        site.wait_for_phase(name, JobPhase::Running).await;
        site.wait_for_whole_gang(name, 8).await;
    }
    // Without a connection, the operator detects by its own clock that it no longer leads.
    wait_for_failed_exit(&mut alone.operator).await;
    let before = gang_versions(&site).await;
    alone.proxy.remove_faults();
    tokio::time::sleep(LEASE_DURATION).await;
    assert_eq!(gang_versions(&site).await, before);
    assert_eq!(pod_uids(&site.wait_for_whole_gang("runs", 8).await), ran);
    assert!(
        history.recreated_pods().is_empty(),
        "{:?}",
        history.recreated_pods()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gang_stays_whole_when_the_leaders_requests_are_refused() {
    check_isolated_leader(ProxyFault::DropRequest).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gang_stays_whole_when_the_leaders_requests_hang() {
    check_isolated_leader(ProxyFault::Hang).await;
}

/// Returns the uids of all pods and the resource versions of all journals of a site.
async fn gang_versions(site: &TestSite) -> Vec<Option<String>> {
    let groups: Api<trellis_api::PodGroup> = site.api();
    let groups = groups.list(&Default::default()).await.unwrap().items;
    let pods = site.api::<Pod>().list(&Default::default()).await.unwrap();
    let groups = groups.into_iter().map(|g| g.metadata.resource_version);
    groups
        .chain(pods.items.into_iter().map(|p| p.metadata.uid))
        .collect()
}

/// Waits until an operator has ended by itself with a failure.
async fn wait_for_failed_exit(operator: &mut Operator) {
    let deadline = Instant::now() + SOON;
    let status = loop {
        if let Some(status) = operator.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "{}", operator.log_tail());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(!status.success(), "{status}: {}", operator.log_tail());
}
