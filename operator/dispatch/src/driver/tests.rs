mod restart;

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use trellis_api::{PodGroup, TrainingJob, TrainingQueue};
use trellis_cache::watch::Sink;
use trellis_gang::fixtures::desired_run;
use trellis_gang::observed::{SlimNode, SlimPod};
use trellis_gang::open_plan::OpenPlan;

use super::*;
use crate::SchedulerEvent;
use crate::commands::Commands;
use crate::context::{Context, WatchSink};
use crate::leader::Leadership;

/// Returns a driver whose API server does not answer.
pub(super) fn driver() -> Driver {
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = Client::try_from(nowhere).unwrap();
    let (context, heard) = Context::new();
    let commands = Commands::new(client, Leadership::for_test());
    Driver::new(Committer::new(context, commands), heard)
}

/// Returns the PodGroup of a gang in the middle of its commit.
fn committing(job: &Key) -> PodGroup {
    let group = serde_json::json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": &*job.name, "namespace": &*job.namespace, "uid": "g", "resourceVersion": "1"},
        "spec": {"minMember": 1, "queueName": "default", "priority": 0, "groups": []},
        "status": {"phase": "Committing"},
    });
    serde_json::from_value(group).unwrap()
}

/// While a commit pauses, its missing pods keep their promised quota. Then its job is deleted.
#[tokio::test]
async fn job_deleted_during_a_commit_pause_frees_its_namespace_quota() {
    let mut driver = driver();
    let (gone, waits) = (Key::new("team-a", "llm"), Key::new("team-a", "waits"));
    let context = driver.committer.context().clone();
    context
        .cache
        .pod_groups
        .insert_observed(gone.clone(), committing(&gone));
    let plan = OpenPlan {
        groups: vec![("worker".to_owned(), 3, AdmittedPod::default())],
        ..OpenPlan::default()
    };
    driver.committer.open_plans().insert(&gone, plan);
    driver
        .over_quota
        .insert(waits.clone(), QuotaDemand::default());
    let other = waits.clone();
    let promised = |driver: &Driver| -> i64 {
        let plans = driver.committer.open_plans();
        let others = plans.other_demands(&other, |_, plan| plan.total_demand());
        others.iter().map(QuotaDemand::count).sum()
    };

    let mut touched = BTreeSet::new();
    driver.handle_event(
        SchedulerEvent::DesiredGang(gone.clone(), Some(desired_run(1))),
        &mut touched,
    );
    touched.clear();
    assert_eq!(promised(&driver), 3);
    driver.handle_event(SchedulerEvent::DesiredGang(gone, None), &mut touched);
    assert_eq!(promised(&driver), 0);
    assert_eq!(touched.into_iter().collect::<Vec<_>>(), [waits]);
}

/// The operator loses the right to watch nodes, and gets it back.
#[tokio::test(start_paused = true)]
async fn driver_decides_nothing_while_a_watch_is_broken() {
    let mut driver = driver();
    let (before, later) = (Key::new("team-a", "before"), Key::new("team-a", "later"));
    let context = driver.committer.context().clone();
    let (nodes, _pods) = (context.cache.pulse("nodes"), context.cache.pulse("pods"));
    let none = BTreeSet::new();
    let waits = |driver: &mut Driver, job: &Key| {
        driver.gangs.entry(job.clone()).or_default().engine_state = EngineState::Waiting;
    };
    let told = |job: &Key| context.explanations.read().get(job).cloned();
    waits(&mut driver, &before);
    let minute = Duration::from_secs(60);
    for _ in 0..3 {
        assert!(!driver.is_watch_broken(&none));
        assert_eq!(driver.next_pause(), cycle::MAX_IDLE);
        tokio::time::advance(minute).await;
        context.cache.pulse("pods").beat();
    }
    assert!(driver.is_watch_broken(&none));
    let said = told(&before).unwrap();
    assert_eq!(said.reason, trellis_api::Reason::CacheNotReady);
    assert!(said.message.contains("the watch of nodes"), "{said:?}");
    // The driver checks the watch again soon, even if the engine has no work.
    assert_eq!(driver.next_pause(), broken_watch::CHECK_INTERVAL);
    waits(&mut driver, &later);
    assert_eq!(told(&later), None);
    assert!(driver.is_watch_broken(&BTreeSet::from([later.clone()])));
    assert_eq!(told(&later), Some(said));
    nodes.beat();
    assert!(!driver.is_watch_broken(&none));
    assert_eq!((told(&before), told(&later)), (None, None));
}

/// The policies allowed the job, but changed before the journal has its place.
#[tokio::test]
async fn job_allowed_by_outdated_policies_is_not_placed() {
    use trellis_gang::fixtures::policies;
    use trellis_gang::flavors::GangPlacement;
    use trellis_policies::cedar::PolicyLoader;

    use crate::task_outcome::TaskOutcome;

    let driver = driver();
    let context = driver.committer.context().clone();
    let job = Key::new("team-a", "llm");
    let wish = desired_run(1);
    let run = wish.attempt().unwrap().clone();
    let said = async || {
        let stop = tokio_util::sync::CancellationToken::new();
        let (place, planned) = (GangPlacement::default(), BTreeMap::new());
        let committer = driver.committer.clone();
        match committer
            .commit(job.clone(), run.clone(), place, planned, stop)
            .await
        {
            TaskOutcome::Retry(message) | TaskOutcome::PutOff(_, message) => message,
            other => panic!("{other:?}"),
        }
    };
    let changed = "the policies have changed since it was decided that it may run";
    assert_eq!(said().await, changed, "none are read");
    context.cache.policies.replace(policies());
    assert_ne!(said().await, changed, "they allow it");
    let none = PolicyLoader::new().unwrap().load(None, Vec::new()).0;
    context.cache.policies.replace(none.into());
    assert_eq!(said().await, changed);
    assert_eq!(context.work_queue.next().await, job, "it is decided anew");
}

/// The node "n0" with 8 GPUs, and the queue "default".
fn watch_node_and_queue(watched: &WatchSink) {
    let node: SlimNode = decoded(serde_json::json!({
        "metadata": {"name": "n0", "uid": "n0"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}},
    }));
    watched.apply(Key::new("", "n0"), node);
    let queue: TrainingQueue = decoded(serde_json::json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": "default"}, "spec": {"namespaceSelector": {}},
    }));
    watched.apply(Key::new("", "default"), queue);
}

/// Returns the PodGroup of the job "team-a/llm" with that journal.
fn pod_group(journal: serde_json::Value) -> PodGroup {
    decoded(serde_json::json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "llm", "namespace": "team-a", "uid": "g", "resourceVersion": "1",
            "ownerReferences": [{"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
                "name": "llm", "uid": "mine", "controller": true}]},
        "spec": {"minMember": 1, "queueName": "default", "priority": 0, "groups": []},
        "status": journal,
    }))
}

/// A rank failed on the only node there is. While the engine is asked again, the back-off ends:
/// the same attempt is wished for in other words.
#[tokio::test]
async fn gang_uses_its_suspect_node_when_no_other_node_exists() {
    let mut driver = driver();
    let job = Key::new("team-a", "llm");
    let context = driver.committer.context().clone();
    let watched = WatchSink::new(&context);
    watch_node_and_queue(&watched);
    let llm: TrainingJob = decoded(serde_json::json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "llm", "namespace": "team-a", "uid": "mine"},
        "spec": {"taskGroups": []},
    }));
    watched.apply(job.clone(), llm);
    let group = pod_group(serde_json::json!({}));
    watched.apply(job.clone(), group);
    let wish = |not_before: Option<Timestamp>| {
        let DesiredGang::Run(run) = desired_run(1) else {
            panic!()
        };
        let mut run = Arc::into_inner(run).unwrap();
        run.attempt.suspect_nodes = vec!["n0".to_owned()];
        run.attempt.not_before = not_before;
        SchedulerEvent::DesiredGang(job.clone(), Some(DesiredGang::Run(run.into())))
    };
    let hear = |driver: &mut Driver, news: Vec<SchedulerEvent>| {
        let mut touched = BTreeSet::new();
        for feed in news {
            driver.handle_event(feed, &mut touched);
        }
        for job in touched {
            driver.advance(&job);
        }
        driver.decide();
    };
    let mut news = driver.events.take_all();
    let limits = JobLimits {
        version: context.cache.quotas.version(),
        ..JobLimits::default()
    };
    news.push(SchedulerEvent::Limits(job.clone(), limits.into()));
    news.push(wish(Some(Timestamp::UNIX_EPOCH)));
    hear(&mut driver, news);
    // The look and the next wish arrive together.
    let mut news = driver.events.take_all();
    assert!(
        news.iter()
            .any(|feed| matches!(feed, SchedulerEvent::Recheck(_)))
    );
    news.push(wish(None));
    hear(&mut driver, news);
    let news = driver.events.take_all();
    hear(&mut driver, news);
    assert_eq!(driver.gangs[&job].engine_state, EngineState::Placed);
}

/// Returns a pod of the job "team-a/llm" with that uid, which may have lost its owner.
fn pod_of(uid: &str, is_owned: bool, phase: &str) -> SlimPod {
    let owners = match is_owned {
        true => serde_json::json!([{"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "name": "llm", "uid": uid, "controller": true}]),
        false => serde_json::json!([]),
    };
    decoded(serde_json::json!({
        "metadata": {"name": format!("{uid}-{is_owned}-{phase}"), "namespace": "team-a",
            "uid": format!("{uid}-{is_owned}-{phase}"), "ownerReferences": owners,
            "labels": {"trellis.dev/job": "llm", "trellis.dev/job-uid": uid}},
        "spec": {"nodeName": "n0"}, "status": {"phase": phase},
    }))
}

/// The garbage collector deletes only the pods that a job owned.
#[tokio::test]
async fn pod_without_owner_is_deleted_once_its_job_is_gone() {
    let mut driver = driver();
    let job = Key::new("team-a", "llm");
    let context = driver.committer.context().clone();
    let watched = WatchSink::new(&context);
    for uid in ["before", "now"] {
        for is_owned in [true, false] {
            let pod = pod_of(uid, is_owned, "Running");
            watched.apply(Key::from_meta(&pod.metadata), pod);
        }
    }
    let over = pod_of("before", false, "Succeeded");
    watched.apply(Key::from_meta(&over.metadata), over);
    let mut stopped = |meta: serde_json::Value| -> Vec<String> {
        if !meta.is_null() {
            let job_of_now: TrainingJob = decoded(serde_json::json!({
                "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
                "metadata": meta, "spec": {"taskGroups": []},
            }));
            watched.apply(job.clone(), job_of_now);
        }
        driver.orphans.clear();
        driver.delete_orphans(&job);
        let asked = driver.orphans.get(&job).into_iter();
        asked.flat_map(|orphans| orphans.requested_uids()).collect()
    };
    let mut meta = serde_json::json!({"name": "llm", "namespace": "team-a", "uid": "now",
        "resourceVersion": "1"});
    let old = "before-false-Running".to_owned();
    assert_eq!(stopped(meta.clone()), std::slice::from_ref(&old));
    // A finalizer keeps the job, and the garbage collector waits for it.
    meta["deletionTimestamp"] = serde_json::json!("2026-01-01T00:00:00Z");
    meta["resourceVersion"] = serde_json::json!("2");
    let left = ["now-false-Running", "now-true-Running"].map(str::to_owned);
    let [left, owned] = left;
    assert_eq!(stopped(meta), [old.clone(), left.clone(), owned]);
    context.cache.jobs.delete_observed(&job, "now");
    assert_eq!(stopped(serde_json::Value::Null), [old, left]);
}

pub(super) fn decoded<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}
