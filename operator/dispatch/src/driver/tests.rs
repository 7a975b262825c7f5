mod cycle;
mod provisioning;
mod restart;
mod slices;

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use tokio::time::Instant;
use trellis_api::{PodGroup, Reason, TrainingJob, TrainingQueue};
use trellis_cache::watch::Sink;
use trellis_gang::GangExplanation;
use trellis_gang::fixtures::desired_run;
use trellis_gang::journal::open_plan_demand::OpenPlan;
use trellis_gang::observed::{SlimNode, SlimPod};

use super::*;
use crate::SchedulerEvent;
use crate::commands::Commands;
use crate::context::{Context, WatchSink};
use crate::leader::Leadership;

/// Returns a driver whose API server does not answer.
pub(super) fn driver() -> Driver {
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = Client::try_from(nowhere).unwrap();
    let (context, events) = Context::new();
    let commands = Commands::new(client, Leadership::for_test());
    Driver::new(Committer::new(context, commands), events)
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

/// While a commit pauses, its missing pods keep their promised quota, until their job is deleted.
#[tokio::test]
async fn job_deleted_during_a_commit_pause_frees_its_namespace_quota() {
    let mut driver = driver();
    let (deleted, waiting) = (Key::new("team-a", "llm"), Key::new("team-a", "waits"));
    let context = driver.committer.context().clone();
    context
        .cache
        .pod_groups
        .insert_observed(deleted.clone(), committing(&deleted));
    let plan = OpenPlan {
        groups: vec![("worker".to_owned(), 3, AdmittedPod::default())],
        ..OpenPlan::default()
    };
    driver.committer.open_plans().insert(&deleted, plan);
    driver
        .over_quota
        .insert(waiting.clone(), QuotaDemand::default());
    let other = waiting.clone();
    let promised_pods = |driver: &Driver| -> i64 {
        let plans = driver.committer.open_plans();
        let demands = plans.other_demands(&other, |_, plan| plan.total_demand());
        demands.iter().map(QuotaDemand::count).sum()
    };

    let mut to_advance = BTreeSet::new();
    driver.handle_event(
        SchedulerEvent::DesiredGang(deleted.clone(), Some(desired_run(1))),
        &mut to_advance,
    );
    to_advance.clear();
    assert_eq!(promised_pods(&driver), 3);
    driver.handle_event(SchedulerEvent::DesiredGang(deleted, None), &mut to_advance);
    assert_eq!(promised_pods(&driver), 0);
    assert_eq!(to_advance.into_iter().collect::<Vec<_>>(), [waiting]);
}

/// Gangs that start and end change the reason of a waiting job each second.
#[tokio::test(start_paused = true)]
async fn waiting_job_gets_its_newest_reason_at_a_limited_rate() {
    let mut driver = driver();
    let job = Key::new("team-a", "llm");
    driver.gangs.entry(job.clone()).or_default();
    let context = driver.committer.context().clone();
    let start = Instant::now();
    let mut woken = Vec::new();
    for second in 0..60 {
        let reason = match second % 2 {
            0 => Reason::InsufficientCapacity,
            _ => Reason::QuotaExceeded,
        };
        let message = format!("at second {second}");
        driver.record_explanation(&job, GangExplanation::waiting(reason, message));
        let end = start + Duration::from_secs(second + 1);
        if tokio::time::timeout_at(end, context.work_queue.next()).await == Ok(job.clone()) {
            context.work_queue.work_on(&job).succeed();
            woken.push(second);
            let shown = &context.explanations.read()[&job].message;
            assert_eq!(*shown, format!("at second {second}"));
        }
        tokio::time::sleep_until(end).await;
    }
    assert!((7..=8).contains(&woken.len()), "{woken:?}");
    assert_eq!(woken[..2], [0, 1]);
}

/// The policies allowed the job, but changed before its place was written to the journal.
#[tokio::test]
async fn job_allowed_by_outdated_policies_is_not_placed() {
    use trellis_gang::fixtures::policies;
    use trellis_gang::requirements::flavors::GangPlacement;
    use trellis_policies::cedar::PolicyLoader;

    use crate::task_outcome::TaskOutcome;

    let driver = driver();
    let context = driver.committer.context().clone();
    let job = Key::new("team-a", "llm");
    let desired = desired_run(1);
    let run = desired.attempt().unwrap().clone();
    let message = async || {
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
    assert_eq!(message().await, changed, "no policies are read yet");
    context.cache.policies.replace(policies());
    assert_ne!(message().await, changed, "the policies allow the job");
    let no_policies = PolicyLoader::new().unwrap().load(None, Vec::new()).0;
    context.cache.policies.replace(no_policies.into());
    assert_eq!(message().await, changed);
    assert_eq!(
        context.work_queue.next().await,
        job,
        "the job is reconciled again"
    );
}

/// Adds the node "n0" with 8 GPUs, and the queue "default".
fn watch_node_and_queue(sink: &WatchSink) {
    let node: SlimNode = decoded(serde_json::json!({
        "metadata": {"name": "n0", "uid": "n0"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}},
    }));
    sink.apply(Key::new("", "n0"), node);
    let queue: TrainingQueue = decoded(serde_json::json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": "default"}, "spec": {"namespaceSelector": {}},
    }));
    sink.apply(Key::new("", "default"), queue);
}

/// Returns a driver that has seen a node, a queue and the job "team-a/llm".
fn driver_with_job() -> (Driver, Arc<WatchSink>) {
    let driver = driver();
    let sink = WatchSink::new(driver.committer.context());
    watch_node_and_queue(&sink);
    let job: TrainingJob = decoded(serde_json::json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "llm", "namespace": "team-a", "uid": "mine"},
        "spec": {"taskGroups": []},
    }));
    sink.apply(Key::new("team-a", "llm"), job);
    (driver, sink)
}

/// Returns the event that the current policies have judged the job, and set no limits.
fn judged(driver: &Driver, job: &Key) -> SchedulerEvent {
    let limits = JobLimits {
        version: driver.committer.cache().quotas.version(),
        ..JobLimits::default()
    };
    SchedulerEvent::Limits(job.clone(), limits.into())
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

/// A rank failed on the only node. The back-off ends before the engine has decided, so the desired
/// gang changes although its attempt is the same.
#[tokio::test]
async fn gang_uses_its_suspect_node_when_no_other_node_exists() {
    let (mut driver, sink) = driver_with_job();
    let job = Key::new("team-a", "llm");
    let group = pod_group(serde_json::json!({}));
    sink.apply(job.clone(), group);
    let desired = |not_before: Option<Timestamp>| {
        let DesiredGang::Run(run) = desired_run(1) else {
            panic!()
        };
        let mut run = Arc::into_inner(run).unwrap();
        run.attempt.suspect_nodes = vec!["n0".to_owned()];
        run.attempt.not_before = not_before;
        SchedulerEvent::DesiredGang(job.clone(), Some(DesiredGang::Run(run.into())))
    };
    let handle_events = |driver: &mut Driver, events: Vec<SchedulerEvent>| {
        let mut to_advance = BTreeSet::new();
        for event in events {
            driver.handle_event(event, &mut to_advance);
        }
        for job in to_advance {
            driver.advance(&job);
        }
        driver.decide();
    };
    let mut events = driver.events.take_all();
    events.push(judged(&driver, &job));
    events.push(desired(Some(Timestamp::UNIX_EPOCH)));
    handle_events(&mut driver, events);
    // The recheck and the next desired gang arrive together.
    let mut events = driver.events.take_all();
    assert!(
        events
            .iter()
            .any(|event| matches!(event, SchedulerEvent::Recheck(_)))
    );
    events.push(desired(None));
    handle_events(&mut driver, events);
    let events = driver.events.take_all();
    handle_events(&mut driver, events);
    assert_eq!(driver.gangs[&job].engine_state, EngineState::Placed);
}

/// The victims of a nominated gang have left. This replica has just begun to lead, so the controller
/// has not looked at the job, or a queue or a policy has changed.
#[tokio::test]
async fn nominated_gang_keeps_its_place_until_controller_and_policies_have_judged_it() {
    let (mut driver, sink) = driver_with_job();
    let job = Key::new("team-a", "llm");
    let epoch = driver.committer.commands().epoch().unwrap().0;
    let group = pod_group(serde_json::json!({
        "phase": "Nominated", "epoch": epoch, "victims": [],
        "plan": {"hash": "p", "attempt": 1, "generation": 1, "queue": "default", "compiled": "",
            "assignments": [{"group": "worker", "node": "n0", "count": 1}]},
    }));
    sink.apply(job.clone(), group.clone());
    let handle_events = |driver: &mut Driver, more: Vec<SchedulerEvent>| {
        let mut to_advance = BTreeSet::new();
        let events = driver.events.take_all();
        for event in events.into_iter().chain(more) {
            driver.handle_event(event, &mut to_advance);
        }
        driver.decide();
    };
    handle_events(&mut driver, Vec::new());
    let run = || SchedulerEvent::DesiredGang(job.clone(), Some(desired_run(1)));
    let failed = || SchedulerEvent::Undecided(job.clone());
    let plan = group.status.as_ref().unwrap().plan.as_ref().unwrap();
    driver.restore_nomination(&job, &group, plan);
    for event in [failed(), failed(), run(), run()] {
        handle_events(&mut driver, vec![event]);
        assert_eq!(driver.gangs[&job].engine_state, EngineState::Nominated);
        assert!(
            driver
                .engine
                .placement(&trellis_gang::engine::gang_id(&job))
                .is_some()
        );
    }
    let judged = judged(&driver, &job);
    handle_events(&mut driver, vec![judged]);
    assert_eq!(driver.gangs[&job].engine_state, EngineState::Placed);
    assert!(driver.gangs[&job].task.is_some(), "the plan is carried out");
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

/// The garbage collector deletes only the pods that the job owns.
#[tokio::test]
async fn pod_without_owner_is_deleted_once_its_job_is_gone() {
    let mut driver = driver();
    let job = Key::new("team-a", "llm");
    let context = driver.committer.context().clone();
    let sink = WatchSink::new(&context);
    for uid in ["before", "now"] {
        for is_owned in [true, false] {
            let pod = pod_of(uid, is_owned, "Running");
            sink.apply(Key::from_meta(&pod.metadata), pod);
        }
    }
    let finished_pod = pod_of("before", false, "Succeeded");
    sink.apply(Key::from_meta(&finished_pod.metadata), finished_pod);
    let mut deleted_uids = |meta: serde_json::Value| -> Vec<String> {
        if !meta.is_null() {
            let current_job: TrainingJob = decoded(serde_json::json!({
                "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
                "metadata": meta, "spec": {"taskGroups": []},
            }));
            sink.apply(job.clone(), current_job);
        }
        driver.orphans.clear();
        driver.delete_orphans(&job);
        let orphans = driver.orphans.get(&job).into_iter();
        orphans
            .flat_map(|orphans| orphans.requested_uids())
            .collect()
    };
    let mut meta = serde_json::json!({"name": "llm", "namespace": "team-a", "uid": "now",
        "resourceVersion": "1"});
    let old_pod = "before-false-Running".to_owned();
    assert_eq!(deleted_uids(meta.clone()), std::slice::from_ref(&old_pod));
    // A finalizer keeps the job, and the garbage collector waits for it.
    meta["deletionTimestamp"] = serde_json::json!("2026-01-01T00:00:00Z");
    meta["resourceVersion"] = serde_json::json!("2");
    let remaining = ["now-false-Running", "now-true-Running"].map(str::to_owned);
    let [remaining, owned] = remaining;
    assert_eq!(
        deleted_uids(meta),
        [old_pod.clone(), remaining.clone(), owned]
    );
    context.cache.jobs.delete_observed(&job, "now");
    assert_eq!(deleted_uids(serde_json::Value::Null), [old_pod, remaining]);
}

pub(super) fn decoded<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}
