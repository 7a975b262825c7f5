//! Five minutes of a job with all events of its life. No field that the operator writes is a
//! difference from git.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::argocd::ApplicationState;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::namespace::TestNamespace;
use trellis_e2e::wait::wait_for;

use crate::fixtures::{GitOpsFixture, SOON, policy_manifest, queue_manifest, repository_with};

/// Shortest time of comparisons after the first sync.
const MIN_WATCH_TIME: SignedDuration = SignedDuration::from_mins(5);
/// Lifetime of the job, and time of the observation after its end: a little more than five minutes
/// in total.
const JOB_LIFETIME: Duration = Duration::from_secs(250);
const WATCH_AFTER_END: Duration = Duration::from_secs(60);
/// Time between two requested comparisons.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);
/// Longest time between two comparisons on a busy machine.
const MAX_COMPARE_GAP: SignedDuration = SignedDuration::from_secs(30);
/// A gang grows at most once per minute.
const GROWTH_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) async fn test_client_side_sync(scene: &GitOpsFixture) -> Result<()> {
    check_lifetime(scene, |_| ()).await
}

/// Settings with server-side apply and server-side diff.
pub(crate) async fn test_server_side_sync(scene: &GitOpsFixture) -> Result<()> {
    let by_server = |application: &mut Value| {
        application["spec"]["syncPolicy"]["syncOptions"] = json!(["ServerSideApply=true"]);
        application["metadata"]["annotations"] =
            json!({"argocd.argoproj.io/compare-options": "ServerSideDiff=true"});
    };
    check_lifetime(scene, by_server).await
}

/// Returns objects of every other kind that users deliver with a job.
fn related_objects(name: &str) -> Vec<Value> {
    let object = |kind: &str, spec: Value| {
        json!({"apiVersion": "trellis.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": spec})
    };
    let mut queue = queue_manifest(name);
    queue["spec"]["preemption"] = json!({"withinClusterQueue": "LowerPriority"});
    vec![
        queue,
        policy_manifest(name),
        object(
            "ResourceFlavor",
            json!({"nodeLabels": {"example.com/pool": name}}),
        ),
        object(
            "RuntimeProfile",
            json!({"env": [{"name": "NCCL_DEBUG", "value": "WARN"}]}),
        ),
        object(
            "QuotaPolicy",
            json!({"subject": {"queueName": name}, "limits": {"runningJobs": 10, "gpuHours": {"limit": 100, "windowHours": 720}}}),
        ),
    ]
}

async fn check_lifetime(scene: &GitOpsFixture, change: impl FnOnce(&mut Value)) -> Result<()> {
    let site = scene.create_site(1).await;
    let mut objects = related_objects(site.name());
    // At first, the job requests more than the free GPUs.
    let mut job = site.job("train", 4, 4);
    job["spec"]["queueName"] = json!(site.name());
    job["spec"]["profile"] = json!(site.name());
    job["spec"]["taskGroups"][0]["minReplicas"] = json!(3);
    // Quantities and numbers in the notation of users.
    job["spec"]["taskGroups"][0]["resources"] =
        json!({"limits": {"cpu": "1000m", "memory": "1024Mi"}});
    objects.push(job);
    let repository = repository_with(&objects)?;
    let mut application = scene.application_for(&site, &repository);
    change(&mut application);
    let application = scene.argocd.create_application(&application).await?;

    let has_printed = std::sync::atomic::AtomicBool::new(false);
    let over = || has_printed.load(std::sync::atomic::Ordering::Relaxed);
    let watched = application.record_states(|_| over());
    let lived = async {
        let lived = run_lifetime(scene, &site).await;
        has_printed.store(true, std::sync::atomic::Ordering::Relaxed);
        // A change that the watch shows, so that the watch ends.
        application.refresh().await?;
        lived
    };
    let compared = async {
        while !over() {
            application.refresh().await?;
            sleep(REFRESH_INTERVAL).await;
        }
        anyhow::Ok(())
    };
    let (history, (), ()) = tokio::try_join!(watched, lived, compared)?;
    check_history(&history)?;
    application.delete(SOON).await
}

/// The job waits, runs with all its pods, shrinks and grows, is preempted, restarted, suspended and
/// resumed, and ends. The test watches it for a while after its end.
async fn run_lifetime(scene: &GitOpsFixture, site: &TestSite) -> Result<()> {
    site.wait_for_phase("train", JobPhase::Queued).await;
    let began = Instant::now();
    sleep(2 * REFRESH_INTERVAL).await;
    let extra_nodes = NodeTemplate::new(1).gpus(8);
    let _extra_nodes = site.add_nodes(&scene.control_plane, extra_nodes).await;
    wait_for_ready_pods(site, 1, "4/4").await?;
    sleep(2 * REFRESH_INTERVAL).await;

    // A job of another team with the same priority preempts only the fourth pod.
    let elsewhere = TestNamespace::create(&scene.control_plane, "gitops-other").await?;
    let other_jobs = site.jobs_in(&elsewhere);
    let of_queue = |name: &str, gpus: u32| {
        let mut other = other_jobs.job(name, 1, gpus);
        other["spec"]["queueName"] = json!(site.name());
        other
    };
    other_jobs.create(of_queue("neighbour", 4)).await?;
    wait_for_ready_pods(site, 1, "3/4").await?;
    other_jobs
        .wait_for_phase("neighbour", JobPhase::Running)
        .await;
    sleep(2 * REFRESH_INTERVAL).await;
    other_jobs.delete::<TrainingJob>("neighbour").await;
    wait_for_ready_pods(site, 1, "4/4").await?;

    let urgent = format!("{}-urgent", site.name());
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": urgent}, "value": 1000});
    scene.control_plane.apply_yaml(&class.to_string()).await?;
    let mut urgent_job = of_queue("urgent", 8);
    urgent_job["spec"]["priorityClassName"] = json!(urgent);
    other_jobs.create(urgent_job).await?;
    other_jobs.wait_for_phase("urgent", JobPhase::Running).await;
    site.wait_for_phase("train", JobPhase::Queued).await;
    sleep(2 * REFRESH_INTERVAL).await;
    other_jobs.delete::<TrainingJob>("urgent").await;
    wait_for_ready_pods(site, 2, "4/4").await?;
    sleep(2 * REFRESH_INTERVAL).await;

    site.end_pod("train-worker-0", "1").await;
    wait_for_ready_pods(site, 3, "4/4").await?;
    sleep(2 * REFRESH_INTERVAL).await;

    scene
        .run_trellis(site, &["suspend", "train", "--wait"])
        .await?;
    site.wait_for_phase("train", JobPhase::Suspended).await;
    sleep(2 * REFRESH_INTERVAL).await;
    scene
        .run_trellis(site, &["resume", "train", "--wait"])
        .await?;
    wait_for_ready_pods(site, 4, "4/4").await?;

    sleep_until(began + JOB_LIFETIME).await;
    for index in 0..4 {
        site.end_pod(&format!("train-worker-{index}"), "0").await;
    }
    site.wait_for_phase("train", JobPhase::Complete).await;
    sleep(WATCH_AFTER_END).await;
    Ok(())
}

async fn wait_for_ready_pods(site: &TestSite, attempt: i64, ready: &str) -> Result<()> {
    let is_running = |job: &TrainingJob| {
        let status = job.status.as_ref();
        status.is_some_and(|s| {
            s.phase == Some(JobPhase::Running)
                && s.attempt == Some(attempt)
                && s.ready.as_deref() == Some(ready)
        })
    };
    wait_for(&site.api(), "train", GROWTH_TIMEOUT, is_running).await?;
    Ok(())
}

fn check_history(history: &[ApplicationState]) -> Result<()> {
    let synced = history
        .iter()
        .skip_while(|s| s.sync != "Synced" || s.operation.0 != "Succeeded");
    let synced: Vec<&ApplicationState> = synced.collect();
    for state in &synced {
        let differs = state
            .resources
            .iter()
            .any(|(_, (sync, _, _))| sync != "Synced");
        ensure!(
            state.sync == "Synced" && !differs,
            "a difference: {state:#?}"
        );
        // The history contains complete syncs. It does not contain partial syncs of self-heal, but
        // the check above would show their differences.
        ensure!(state.syncs == 1, "synced again: {state:#?}");
        ensure!(state.conditions.is_empty(), "{state:#?}");
    }
    let mut healths: Vec<&str> = synced.iter().map(|s| s.health.as_str()).collect();
    healths.dedup();
    // A comparison may run before or after the operator has reconciled a change of the job.
    let asks = |pair: &[&str]| pair == ["Progressing", "Suspended"];
    if let Some(before) = healths.windows(2).position(asks) {
        healths.remove(before);
    }
    let lived = [
        "Progressing",
        "Healthy", // with four, with three, with four
        "Progressing",
        "Healthy", // after the preemption
        "Progressing",
        "Healthy", // after the restart
        "Suspended",
        "Progressing",
        "Healthy",
    ];
    ensure!(healths == lived, "{healths:?}");
    check_comparisons(&synced)
}

/// Checks that Argo CD has compared continuously, and for at least `MIN_WATCH_TIME`.
fn check_comparisons(synced: &[&ApplicationState]) -> Result<()> {
    let times = synced.iter().map(|s| s.reconciled.parse::<Timestamp>());
    let mut times: Vec<Timestamp> = times.collect::<Result<_, _>>()?;
    times.dedup();
    let (first, last) = times.first().zip(times.last()).context("never compared")?;
    let watched = last.duration_since(*first);
    ensure!(
        watched >= MIN_WATCH_TIME,
        "Argo CD compared only for {watched}"
    );
    for (before, after) in times.iter().zip(times.iter().skip(1)) {
        let between = after.duration_since(*before);
        ensure!(
            between <= MAX_COMPARE_GAP,
            "Argo CD did not compare for {between}: {before}"
        );
    }
    Ok(())
}
