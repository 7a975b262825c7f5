//! Two operators, one lease.

use std::time::{Duration, Instant};

use anyhow::ensure;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::control_plane::{ControlPlane, Signal};
use trellis_e2e::helm;
use trellis_e2e::history::PodHistory;
use trellis_e2e::jobs::{SOON, phase, uids};
use trellis_e2e::operator::{self, LEASE, Launch, NAMESPACE, Operator};
use trellis_e2e::proxy::{Counts, Fault, Proxy};
use trellis_e2e::site::Site;
use trellis_e2e::wait::{eventually, wait_for};

use super::{held, program};

/// The lease duration of these tests. A busy machine must not cost an operator its lease unless it
/// is cut off.
const DURATION: Duration = Duration::from_secs(5);
/// The most that a request of an operator takes.
const REQUEST: Duration = Duration::from_secs(15);
/// How late a busy machine may take the lease.
const MARGIN: Duration = Duration::from_secs(15);
/// How long a new leader may take to fill its caches and to place a job, on a busy machine.
const RUNS: Duration = Duration::from_secs(60);

/// The default lease duration of the chart.
fn of_chart() -> Duration {
    let values = std::fs::read_to_string(helm::chart().join("values.yaml")).unwrap();
    let values: serde_json::Value = serde_saphyr::from_str(&values).unwrap();
    Duration::from_secs(values["operator"]["leaseSeconds"].as_u64().unwrap())
}

/// An operator, and the proxy that it alone talks through.
struct Candidate {
    operator: Operator,
    proxy: Proxy,
}

async fn start(control_plane: &ControlPlane, name: &str) -> Candidate {
    start_with(control_plane, name, DURATION).await
}

async fn start_with(control_plane: &ControlPlane, name: &str, lease: Duration) -> Candidate {
    let launch = Launch::named(name).lease_seconds(lease.as_secs());
    let (operator, proxy) = Operator::behind_proxy(control_plane, program(), &launch)
        .await
        .unwrap();
    Candidate { operator, proxy }
}

/// Process id of the operator that holds the lease.
async fn holder(control_plane: &ControlPlane) -> anyhow::Result<u32> {
    let api: Api<Lease> = Api::namespaced(control_plane.client(), NAMESPACE);
    let spec = api.get(LEASE).await?.spec.unwrap_or_default();
    let identity = spec.holder_identity.unwrap_or_default();
    // <host>_<process id>_<time>
    let id = identity.rsplit('_').nth(1).unwrap_or_default();
    Ok(id.parse()?)
}

/// Waits until an operator holds the lease.
pub(super) async fn leads(control_plane: &ControlPlane, operator: &Operator) {
    eventually(SOON, || async {
        let holder = holder(control_plane).await?;
        ensure!(holder == operator.id(), "process {holder} leads");
        Ok(())
    })
    .await
    .unwrap();
}

/// Submits a job, and asserts that `next` takes the lease in time after the fault that cost the
/// leader its lease, and runs the job.
async fn goes_on(
    (control_plane, next): (&ControlPlane, &Operator),
    (site, name): (&Site, &str),
    fault: Instant,
    lease: Duration,
) {
    site.submit(name, 8, 1).await;
    // A candidate may see the last renewal a fifth of the lease late.
    let bound = lease / 5 + lease + REQUEST.min(lease) + MARGIN;
    let left = bound.saturating_sub(fault.elapsed());
    let taken = eventually(left, || async {
        let holder = holder(control_plane).await?;
        ensure!(holder == next.id(), "process {holder} leads");
        Ok(())
    });
    let taken = taken.await;
    taken.unwrap_or_else(|error| panic!("{bound:?} after the fault: {error:#}"));
    let runs = |job: &TrainingJob| phase(job) == Some(JobPhase::Running);
    wait_for(&site.api(), name, RUNS, runs).await.unwrap();
}

/// Writes that the API server has taken. Events are no part of a job's story.
fn taken(counts: &Counts) -> u64 {
    let tally = counts.sum(|key| key.is_write() && !key.resource.starts_with("events"));
    tally.requests - tally.failures
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_operators_one_leads_and_the_other_takes_over() {
    let control_plane = operator::control_plane().await.unwrap();
    let lease = of_chart();
    let (a, b) = tokio::join!(
        start_with(&control_plane, "a", lease),
        start_with(&control_plane, "b", lease)
    );
    let first = eventually(SOON, || holder(&control_plane)).await.unwrap();
    let (mut leader, mut other) = if first == a.operator.id() {
        (a, b)
    } else {
        (b, a)
    };
    let site = Site::new(&control_plane, "two", Nodes::new(2).gpus(8)).await;
    let history = PodHistory::record(site.api::<Pod>());
    site.submit("runs", 8, 1).await;
    site.reaches("runs", JobPhase::Running).await;
    let ran = uids(&site.whole("runs", 8).await);
    assert_eq!(taken(&other.proxy.counts()), 0, "{}", other.proxy.counts());
    assert!(taken(&leader.proxy.counts()) > 8);

    let killed = Instant::now();
    leader.operator.kill().unwrap();
    let next = (&control_plane, &other.operator);
    goes_on(next, (&site, "next"), killed, lease).await;
    site.whole("next", 8).await;
    assert_eq!(uids(&site.whole("runs", 8).await), ran);
    // The new leader takes over the gang of the dead one: a failed rank restarts it.
    site.exit("runs-worker-3", "1").await;
    site.runs_again("runs", 2).await;
    site.whole("runs", 8).await;
    let twice = history.twice();
    assert!(
        twice.keys().all(|pod| pod.starts_with("runs-")),
        "{twice:?}"
    );
    other.operator.assert_runs();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_wakes_after_its_lease_writes_nothing_more() {
    let control_plane = operator::control_plane().await.unwrap();
    let mut frozen = start(&control_plane, "frozen").await;
    leads(&control_plane, &frozen.operator).await;
    let next = start(&control_plane, "next").await;
    let site = Site::new(&control_plane, "frozen", Nodes::new(3).gpus(8)).await;
    let history = PodHistory::record(site.api::<Pod>());
    site.submit("runs", 8, 1).await;
    site.reaches("runs", JobPhase::Running).await;
    let ran = uids(&site.whole("runs", 8).await);
    held::in_its_commit(&frozen.proxy, &site, "mid", (4, 8), Fault::unavailable()).await;

    let since = Instant::now();
    frozen.operator.signal(Signal::Stop).unwrap();
    frozen.proxy.heal();
    let next = (&control_plane, &next.operator);
    goes_on(next, (&site, "new"), since, DURATION).await;
    // The other one finishes what was begun, and places what came meanwhile.
    for name in ["mid", "new"] {
        site.reaches(name, JobPhase::Running).await;
        site.whole(name, 8).await;
    }
    tokio::time::sleep((2 * DURATION).saturating_sub(since.elapsed())).await;

    frozen.proxy.reset_counts();
    let before = control_plane_version(&site).await;
    frozen.operator.signal(Signal::Continue).unwrap();
    ends(&mut frozen.operator).await;
    let counts = frozen.proxy.counts();
    assert_eq!(taken(&counts), 0, "{counts}");
    assert_eq!(control_plane_version(&site).await, before);
    assert_eq!(uids(&site.whole("runs", 8).await), ran);
    for name in ["runs", "mid", "new"] {
        site.whole(name, 8).await;
    }
    assert!(history.twice().is_empty(), "{:?}", history.twice());
}

/// The network between a leader and the API server is gone, in the middle of a commit.
async fn who_is_cut_off_tears_nothing(cut: Fault) {
    let control_plane = operator::control_plane().await.unwrap();
    let mut alone = start(&control_plane, "alone").await;
    leads(&control_plane, &alone.operator).await;
    let next = start(&control_plane, "next").await;
    let site = Site::new(&control_plane, "alone", Nodes::new(3).gpus(8)).await;
    let history = PodHistory::record(site.api::<Pod>());
    site.submit("runs", 8, 1).await;
    site.reaches("runs", JobPhase::Running).await;
    let ran = uids(&site.whole("runs", 8).await);
    held::in_its_commit(&alone.proxy, &site, "mid", (4, 8), cut).await;

    let since = Instant::now();
    alone.proxy.stall_watches(|_| true);
    alone.proxy.on_request(move |_| cut);
    let next = (&control_plane, &next.operator);
    goes_on(next, (&site, "new"), since, DURATION).await;
    for name in ["mid", "new"] {
        site.reaches(name, JobPhase::Running).await;
        site.whole(name, 8).await;
    }
    // The operator knows by its own clock that it no longer leads, without any connection.
    ends(&mut alone.operator).await;
    let before = control_plane_version(&site).await;
    alone.proxy.heal();
    tokio::time::sleep(DURATION).await;
    assert_eq!(control_plane_version(&site).await, before);
    assert_eq!(uids(&site.whole("runs", 8).await), ran);
    assert!(history.twice().is_empty(), "{:?}", history.twice());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_requests_are_refused_tears_nothing() {
    who_is_cut_off_tears_nothing(Fault::DropRequest).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_requests_are_never_answered_tears_nothing() {
    who_is_cut_off_tears_nothing(Fault::Hang).await;
}

/// Uids of all pods and resource versions of all journals of a site.
async fn control_plane_version(site: &Site) -> Vec<Option<String>> {
    let groups: Api<trellis_api::PodGroup> = site.api();
    let groups = groups.list(&Default::default()).await.unwrap().items;
    let pods = site.api::<Pod>().list(&Default::default()).await.unwrap();
    let groups = groups.into_iter().map(|g| g.metadata.resource_version);
    groups
        .chain(pods.items.into_iter().map(|p| p.metadata.uid))
        .collect()
}

/// Waits until an operator has ended by itself, with a failure.
async fn ends(operator: &mut Operator) {
    let deadline = Instant::now() + SOON;
    let status = loop {
        if let Some(status) = operator.ended().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "{}", operator.last_words());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(!status.success(), "{status}: {}", operator.last_words());
}

/// Waits until a pod was seen whose name begins with `prefix`.
async fn is_seen(history: &PodHistory, prefix: &str) {
    eventually(SOON, || async {
        let seen = history.seen();
        let is_there = seen.keys().any(|pod| pod.starts_with(prefix));
        ensure!(is_there, "no pod {prefix} is among {seen:?}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_an_old_leader_creates_late_is_removed() {
    let control_plane = operator::control_plane().await.unwrap();
    let mut old = start(&control_plane, "old").await;
    leads(&control_plane, &old.operator).await;
    let next = start(&control_plane, "next").await;
    let site = Site::new(&control_plane, "late", Nodes::new(1).gpus(8)).await;
    // The creates of the second half are under way, in a network that is slow.
    held::in_its_commit(&old.proxy, &site, "j", (4, 8), Fault::Hold).await;
    old.operator.signal(Signal::Stop).unwrap();
    leads(&control_plane, &next.operator).await;
    // Meanwhile the plan is undone: the user has thought better of it.
    site.patch("j", json!({"spec": {"suspend": true}}))
        .await
        .unwrap();
    site.reaches("j", JobPhase::Suspended).await;
    site.pods_become("j", 0).await;

    let pods = site.api::<Pod>();
    let history = PodHistory::record(pods.clone());
    // A watch that begins late does not show a pod that has come and gone before.
    let probe = json!({
        "metadata": {"name": "probe"},
        "spec": {"containers": [{"name": "main", "image": "registry.example/probe"}]},
    });
    let probe = serde_json::from_value(probe).unwrap();
    pods.create(&PostParams::default(), &probe).await.unwrap();
    is_seen(&history, "probe").await;
    old.proxy.heal();
    is_seen(&history, "j-worker-").await;
    site.pods_become("j", 0).await;
    // The GPUs of these pods are free.
    site.submit("whole", 1, 8).await;
    site.reaches("whole", JobPhase::Running).await;
    assert_eq!(site.pods("j").await.len(), 0);
    drop(next);
}
