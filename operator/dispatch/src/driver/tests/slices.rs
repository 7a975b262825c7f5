//! A slice outside the gang replaces a slice of the gang.

use serde_json::{Value, json};
use trellis_api::job::AwaitedPodOptions;
use trellis_api::pod_group::{Assignment, PodGroupPhase, PodGroupStatus};
use trellis_gang::AuthorizedAttempt;
use trellis_gang::engine::gang_id;
use trellis_gang::fixtures::desired_run_with;
use trellis_scheduler::{
    Gang, GangId, GroupName, NodeName, QueueName, ResourceName, Resources, TaskGroup,
};

use super::*;

fn spec() -> Value {
    let slices = json!([{"level": "rack", "pods": 2}]);
    let group = json!({"name": "worker", "image": "i", "replicas": 4, "minReplicas": 2, "gpus": 1,
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "topology": {"slices": slices}});
    json!({"framework": "PyTorch", "taskGroups": [group]})
}

/// Returns the desired attempt in which these pods cannot return to their nodes.
fn desired(displaced: &[u32]) -> DesiredGang {
    let desired = desired_run_with(1, spec());
    let mut run = AuthorizedAttempt::clone(desired.attempt().unwrap());
    run.attempt.awaited.attempt = 1;
    if !displaced.is_empty() {
        run.attempt.awaited.round = 1;
        let options = AwaitedPodOptions {
            displaced: true,
            ..AwaitedPodOptions::default()
        };
        let pods = displaced.iter().copied().collect();
        run.attempt.awaited.await_pods("worker", &pods, options);
    }
    DesiredGang::Run(Arc::new(run))
}

/// Returns the journal of a gang of two pods on node n0.
fn placed(slice_starts: &[i64]) -> PodGroupStatus {
    let desired = desired(&[]);
    let run = desired.attempt().unwrap();
    let place = trellis_gang::requirements::flavors::GangPlacement::default();
    let mut plan = trellis_gang::journal::build_plan(run, &place, Timestamp::UNIX_EPOCH);
    plan.hash = "plan".to_owned();
    plan.assignments = vec![Assignment {
        group: "worker".to_owned(),
        node: "n0".to_owned(),
        count: 2,
        pods: Vec::new(),
    }];
    plan.elastic[0].slice_starts = slice_starts.to_vec();
    PodGroupStatus {
        phase: Some(PodGroupPhase::Placed),
        plan: Some(plan),
        ..PodGroupStatus::default()
    }
}

fn pod(index: u32, more: Value) -> SlimPod {
    let mut metadata = json!({
        "name": format!("llm-worker-{index}"), "namespace": "team-a", "uid": format!("pod-{index}"),
        "labels": {"trellis.dev/job": "llm", "trellis.dev/job-uid": "mine",
            "trellis.dev/group": "worker", "trellis.dev/index": index.to_string(),
            "trellis.dev/attempt": "1"},
        "annotations": {"trellis.dev/plan": "plan"},
        "ownerReferences": [{"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "name": "llm", "uid": "mine", "controller": true}],
    });
    for (key, value) in more.as_object().unwrap() {
        metadata[key] = value.clone();
    }
    decoded(json!({
        "metadata": metadata,
        "spec": {"nodeName": "n0", "containers": [{"name": "main", "resources": {"limits":
            {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}, "requests":
            {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Running"},
    }))
}

fn pod_name(index: u32) -> Key {
    Key::new("team-a", &format!("llm-worker-{index}"))
}

/// Applies job, journal and wish, and takes the gang's next step.
fn advance(driver: &mut Driver, sink: &WatchSink, desired: DesiredGang, journal: PodGroupStatus) {
    let job = Key::new("team-a", "llm");
    sink.apply(
        job.clone(),
        decoded::<TrainingJob>(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "llm", "namespace": "team-a", "uid": "mine"},
            "spec": spec(),
            "status": {"attempt": 1, "scheduledTime": "2026-01-01T00:00:00Z"},
        })),
    );
    let journal = serde_json::to_value(journal).unwrap();
    sink.apply(job.clone(), pod_group(journal));
    let mut to_advance = BTreeSet::new();
    let mut events = driver.events.take_all();
    events.push(SchedulerEvent::DesiredGang(job.clone(), Some(desired)));
    for event in events {
        driver.handle_event(event, &mut to_advance);
    }
    if let Some(gang) = driver.gangs.get_mut(&job) {
        gang.task = None;
    }
    driver.advance(&job);
}

fn free_gpus(driver: &Driver) -> i64 {
    let free = driver.engine.free(&NodeName::new("n0")).unwrap();
    free[&ResourceName::new("nvidia.com/gpu")]
}

/// Returns true if the quota of 5 GPUs has room for a gang with 2 more.
fn has_quota_for_two(driver: &mut Driver) -> bool {
    let request = Resources::new().with("nvidia.com/gpu", 1);
    let group = TaskGroup::new(GroupName::new("w"), 2, request, "other-w".to_owned());
    let id = GangId::new("team-a/other");
    let gang = Gang::new(id, QueueName::new("default"), vec![group]);
    let now = trellis_gang::engine::to_engine_time(trellis_machine::clock::now());
    driver.engine.try_gang(&gang, now).is_ok()
}

/// Both slices are on one node, so only the numbers of the gang's pods change.
#[tokio::test]
async fn pods_of_a_replaced_slice_count_until_they_have_stopped() {
    let mut driver = driver();
    let sink = WatchSink::new(driver.committer.context());
    watch_node_and_queue(&sink);
    let queue: TrainingQueue = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": "default"},
        "spec": {"namespaceSelector": {}, "resourceGroups": [{
            "coveredResources": ["nvidia.com/gpu"],
            "flavors": [{"name": "default", "resources":
                [{"name": "nvidia.com/gpu", "nominalQuota": 5}]}]}]},
    }));
    sink.apply(Key::new("", "default"), queue);
    for index in 0..4 {
        sink.apply(pod_name(index), pod(index, json!({})));
    }
    advance(&mut driver, &sink, desired(&[]), placed(&[]));
    assert_eq!(free_gpus(&driver), 4);
    let job = Key::new("team-a", "llm");
    let surplus = |driver: &Driver| -> Vec<u32> {
        let surplus = &driver.gangs[&job].surplus;
        surplus.units().map(|unit| unit.first).collect()
    };
    assert_eq!(surplus(&driver), [2]);

    for index in 0..2 {
        let deletion = json!({"deletionTimestamp": "2026-01-01T00:00:30Z"});
        sink.apply(pod_name(index), pod(index, deletion));
    }
    advance(&mut driver, &sink, desired(&[0, 1]), placed(&[2]));
    assert_eq!(free_gpus(&driver), 4, "the pods still run");
    assert!(!has_quota_for_two(&mut driver), "and hold quota");
    assert_eq!(surplus(&driver), [0; 0]);
    let placement = driver.engine.placement(&gang_id(&job)).unwrap();
    assert_eq!(placement.pod_count(), 2);

    for index in 0..2 {
        Sink::<SlimPod>::delete(&*sink, &pod_name(index), &format!("pod-{index}"));
    }
    advance(&mut driver, &sink, desired(&[0, 1]), placed(&[2]));
    assert_eq!(free_gpus(&driver), 6);
    assert!(has_quota_for_two(&mut driver));
    // The engine seeks a place for the slice that has left the gang.
    assert_eq!(surplus(&driver), [0]);
    // The pods of the joined slice are those of the gang.
    for index in 2..4 {
        Sink::<SlimPod>::delete(&*sink, &pod_name(index), &format!("pod-{index}"));
    }
    advance(&mut driver, &sink, desired(&[0, 1]), placed(&[2]));
    assert_eq!(free_gpus(&driver), 6, "the place of the gang is kept");
}
