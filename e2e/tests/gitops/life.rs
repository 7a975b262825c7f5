//! Five minutes of a job's life, and all that may happen in it: nothing that the operator writes is a
//! difference.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::argocd::State;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::namespace::TestNamespace;
use trellis_e2e::site::Site;
use trellis_e2e::wait::wait_for;

use crate::scene::{SOON, Scene, policy, queue, repository};

/// How long Argo CD compares it at least, from the first sync on.
const WATCHED: SignedDuration = SignedDuration::from_mins(5);
/// How long the job lives, and how long it is watched after its end: a little more than five
/// minutes in total.
const LIVES: Duration = Duration::from_secs(250);
const AFTER: Duration = Duration::from_secs(60);
/// Time between two comparisons that are asked for.
const EVERY: Duration = Duration::from_secs(2);
/// Time between two comparisons on a machine that does something else beside it.
const SELDOM: SignedDuration = SignedDuration::from_secs(30);
/// A gang grows once a minute at most.
const GROWS: Duration = Duration::from_secs(120);

pub(crate) async fn client_side(scene: &Scene) -> Result<()> {
    life(scene, |_| ()).await
}

/// The settings of careful users: the API server applies and compares.
pub(crate) async fn server_side(scene: &Scene) -> Result<()> {
    let by_server = |application: &mut Value| {
        application["spec"]["syncPolicy"]["syncOptions"] = json!(["ServerSideApply=true"]);
        application["metadata"]["annotations"] =
            json!({"argocd.argoproj.io/compare-options": "ServerSideDiff=true"});
    };
    life(scene, by_server).await
}

/// Every kind that is delivered beside a job.
fn surroundings(name: &str) -> Vec<Value> {
    let of = |kind: &str, spec: Value| {
        json!({"apiVersion": "trellis.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": spec})
    };
    let mut queue = queue(name);
    queue["spec"]["preemption"] = json!({"withinClusterQueue": "LowerPriority"});
    vec![
        queue,
        policy(name),
        of(
            "ResourceFlavor",
            json!({"nodeLabels": {"example.com/pool": name}}),
        ),
        of(
            "RuntimeProfile",
            json!({"env": [{"name": "NCCL_DEBUG", "value": "WARN"}]}),
        ),
        of(
            "QuotaPolicy",
            json!({"subject": {"queueName": name}, "limits": {"runningJobs": 10, "gpuHours": {"limit": 100, "windowHours": 720}}}),
        ),
    ]
}

async fn life(scene: &Scene, change: impl FnOnce(&mut Value)) -> Result<()> {
    let site = scene.site(1).await;
    let mut objects = surroundings(site.name());
    // More than there is, at first.
    let mut job = site.job("train", 4, 4);
    job["spec"]["queueName"] = json!(site.name());
    job["spec"]["profile"] = json!(site.name());
    job["spec"]["taskGroups"][0]["minReplicas"] = json!(3);
    // Quantities and numbers, as people write them.
    job["spec"]["taskGroups"][0]["resources"] =
        json!({"limits": {"cpu": "1000m", "memory": "1024Mi"}});
    objects.push(job);
    let repository = repository(&objects)?;
    let mut application = scene.application(&site, &repository);
    change(&mut application);
    let application = scene.argocd.deliver(&application).await?;

    let told = std::sync::atomic::AtomicBool::new(false);
    let over = || told.load(std::sync::atomic::Ordering::Relaxed);
    let watched = application.history(|_| over());
    let lived = async {
        let lived = lives(scene, &site).await;
        told.store(true, std::sync::atomic::Ordering::Relaxed);
        // Something for the watch to see, and to end by.
        application.refresh().await?;
        lived
    };
    let compared = async {
        while !over() {
            application.refresh().await?;
            sleep(EVERY).await;
        }
        anyhow::Ok(())
    };
    let (history, (), ()) = tokio::try_join!(watched, lived, compared)?;
    judge(&history)?;
    application.delete(SOON).await
}

/// The job waits, runs with all of its pods, gives some up and gets them back, is preempted,
/// restarted, suspended and resumed, ends, and is watched for a while.
async fn lives(scene: &Scene, site: &Site) -> Result<()> {
    site.reaches("train", JobPhase::Queued).await;
    let began = Instant::now();
    sleep(2 * EVERY).await;
    let more = Nodes::new(1).gpus(8);
    let _more = site.more_nodes(&scene.control_plane, more).await;
    runs_with(site, 1, "4/4").await?;
    sleep(2 * EVERY).await;

    // Another team's job takes a place: of the same priority that of the fourth alone.
    let elsewhere = TestNamespace::create(&scene.control_plane, "gitops-other").await?;
    let others = site.jobs_of(&elsewhere);
    let of_queue = |name: &str, gpus: u32| {
        let mut other = others.job(name, 1, gpus);
        other["spec"]["queueName"] = json!(site.name());
        other
    };
    others.create(of_queue("neighbour", 4)).await?;
    runs_with(site, 1, "3/4").await?;
    others.reaches("neighbour", JobPhase::Running).await;
    sleep(2 * EVERY).await;
    others.delete::<TrainingJob>("neighbour").await;
    runs_with(site, 1, "4/4").await?;

    let urgent = format!("{}-urgent", site.name());
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": urgent}, "value": 1000});
    scene.control_plane.apply_yaml(&class.to_string()).await?;
    let mut urgent_job = of_queue("urgent", 8);
    urgent_job["spec"]["priorityClassName"] = json!(urgent);
    others.create(urgent_job).await?;
    others.reaches("urgent", JobPhase::Running).await;
    site.reaches("train", JobPhase::Queued).await;
    sleep(2 * EVERY).await;
    others.delete::<TrainingJob>("urgent").await;
    runs_with(site, 2, "4/4").await?;
    sleep(2 * EVERY).await;

    site.exit("train-worker-0", "1").await;
    runs_with(site, 3, "4/4").await?;
    sleep(2 * EVERY).await;

    scene.trellis(site, &["suspend", "train", "--wait"]).await?;
    site.reaches("train", JobPhase::Suspended).await;
    sleep(2 * EVERY).await;
    scene.trellis(site, &["resume", "train", "--wait"]).await?;
    runs_with(site, 4, "4/4").await?;

    sleep_until(began + LIVES).await;
    for index in 0..4 {
        site.exit(&format!("train-worker-{index}"), "0").await;
    }
    site.reaches("train", JobPhase::Complete).await;
    sleep(AFTER).await;
    Ok(())
}

async fn runs_with(site: &Site, attempt: i64, ready: &str) -> Result<()> {
    let runs = |job: &TrainingJob| {
        let status = job.status.as_ref();
        status.is_some_and(|s| {
            s.phase == Some(JobPhase::Running)
                && s.attempt == Some(attempt)
                && s.ready.as_deref() == Some(ready)
        })
    };
    wait_for(&site.api(), "train", GROWS, runs).await?;
    Ok(())
}

fn judge(history: &[State]) -> Result<()> {
    let synced = history
        .iter()
        .skip_while(|s| s.sync != "Synced" || s.operation.0 != "Succeeded");
    let synced: Vec<&State> = synced.collect();
    for state in &synced {
        let differs = state
            .resources
            .iter()
            .any(|(_, (sync, _, _))| sync != "Synced");
        ensure!(
            state.sync == "Synced" && !differs,
            "a difference: {state:#?}"
        );
        // A sync of all of it stands in the history. One of self-heal, of what differs alone, does
        // not: the difference is what shows, above.
        ensure!(state.syncs == 1, "synced again: {state:#?}");
        ensure!(state.conditions.is_empty(), "{state:#?}");
    }
    let mut healths: Vec<&str> = synced.iter().map(|s| s.health.as_str()).collect();
    healths.dedup();
    // A comparison may come between a change of the job and its reconciliation by the operator, or
    // not.
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
    compared(&synced)
}

/// Checks that Argo CD has compared all the time, and for at least `WATCHED`.
fn compared(synced: &[&State]) -> Result<()> {
    let times = synced.iter().map(|s| s.reconciled.parse::<Timestamp>());
    let mut times: Vec<Timestamp> = times.collect::<Result<_, _>>()?;
    times.dedup();
    let (first, last) = times.first().zip(times.last()).context("never compared")?;
    let watched = last.duration_since(*first);
    ensure!(watched >= WATCHED, "compared for {watched} only");
    for (before, after) in times.iter().zip(times.iter().skip(1)) {
        let between = after.duration_since(*before);
        ensure!(between <= SELDOM, "not compared for {between}: {before}");
    }
    Ok(())
}
