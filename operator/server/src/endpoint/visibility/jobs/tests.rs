//! Rows of an engine's snapshot.

use std::time::Duration;

use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_dispatch::context::Context;
use trellis_gang::observed::SlimPod;
use trellis_scheduler::{
    BorrowWithinPolicy, Decision, Engine, GangId, GroupName, Node, PreemptionPolicy,
    Queue as EngineQueue, QueueName, Quota, ReclaimPolicy, ResourceName, Resources, TaskGroup,
    WithinQueuePolicy,
};

use super::*;

const START: i64 = 1_800_000_000_000;

fn gang(name: &str, pods: u32, at: i64, minutes: Option<u64>) -> Gang {
    let request = Resources::new().with("nvidia.com/gpu", 4).with("cpu", 1000);
    let group = TaskGroup::new(GroupName::new("w"), pods, request, format!("{name}-w"));
    Gang {
        submitted: Time::from_millis(at),
        runtime: minutes.map(Duration::from_mins),
        ..Gang::new(GangId::new(name), QueueName::new("default"), vec![group])
    }
}

/// One job runs on two nodes and three wait: one for the running job, one behind that job, and one
/// forever.
fn snapshot() -> Snapshot {
    let mut engine = Engine::new();
    for node in ["gpu-0", "gpu-1"] {
        let offers = Resources::new()
            .with("nvidia.com/gpu", 8)
            .with("cpu", 64_000)
            .with("pods", 110);
        engine.apply_node(Node::new(NodeName::new(node), offers));
    }
    engine.apply_queue(EngineQueue::new(QueueName::new("default")));
    for (at, (name, pods, minutes)) in (START..).zip([
        ("b/runs", 4, Some(10)),
        ("a/next", 4, Some(5)),
        ("a/after", 4, None),
        ("a/large", 9, Some(1)),
    ]) {
        engine.apply_gang(gang(name, pods, at, minutes));
    }
    engine.cycle(Time::from_millis(START));
    engine.snapshot()
}

fn job(key: &Key) -> Option<Arc<TrainingJob>> {
    let job = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": &*key.name, "namespace": &*key.namespace,
            "annotations": {"trellis.dev/requested-by": "{\"user\": \"forged\", \"groups\": []}"}},
        "spec": {"taskGroups": []},
        "status": {"phase": "Queued", "reason": "InsufficientCapacity", "message": "4 are missing",
            "policy": {"requester": "ann"}},
    });
    (&*key.name == "next").then(|| Arc::new(serde_json::from_value(job).unwrap()))
}

fn queue(key: &Key) -> Option<Arc<TrainingQueue>> {
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": &*key.name}, "spec": {}, "status": {"share": "0.5"},
    });
    Some(Arc::new(serde_json::from_value(queue).unwrap()))
}

fn rows(snapshot: &Snapshot, forecast: Option<&Forecast>) -> Vec<JobState> {
    let facts = JobRowSources {
        snapshot,
        positions: &snapshot.positions(),
        forecast,
        job,
        external_gang: |_: &Key| None::<ExternalGang>,
        queue,
    };
    facts.rows()
}

#[test]
fn placed_jobs_are_listed_before_waiting_jobs_in_order() {
    let snapshot = snapshot();
    let forecast = Forecast::from_snapshot(&snapshot, |_| true);
    let rows = rows(&snapshot, Some(&forecast));
    let at = Timestamp::from_millisecond(START).unwrap();
    let minutes = |time: &Option<MetaTime>| {
        let time = time.as_ref()?;
        Some(time.0.duration_since(at).as_secs() / 60)
    };
    let lines: Vec<_> = rows
        .iter()
        .map(|row| {
            let name = row.metadata.name.clone().unwrap();
            let (start, end) = (minutes(&row.expected_start), minutes(&row.expected_end));
            (name, row.position, start, end)
        })
        .collect();
    assert_eq!(
        lines,
        [
            ("runs".to_owned(), None, None, Some(10)),
            ("next".to_owned(), Some(1), Some(10), Some(15)),
            ("after".to_owned(), Some(2), Some(15), None),
            ("large".to_owned(), Some(3), None, None),
        ]
    );
    let [runs, next, ..] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    assert_eq!((runs.gpus, runs.pods), (16, 4));
    assert_eq!(runs.nodes, ["gpu-0", "gpu-1"]);
    assert_eq!(runs.node_count, Some(2));
    assert_eq!(runs.phase, None, "it has no status yet");
    assert_eq!(next.phase, Some(JobPhase::Queued));
    assert_eq!(next.reason, Some(Reason::InsufficientCapacity));
    assert_eq!(next.message.as_deref(), Some("4 are missing"));
    // The stamp of the job says "forged", and the operator did not trust it.
    assert_eq!(next.user.as_deref(), Some("ann"));
    assert_eq!(next.queue_share.as_deref(), Some("0.5"));
    assert!(next.nodes.is_empty() && next.node_count.is_none());
}

#[test]
fn job_rows_without_a_forecast_show_no_expected_times() {
    let snapshot = snapshot();
    for row in rows(&snapshot, None) {
        assert_eq!((row.expected_start, row.expected_end), (None, None));
    }
}

#[test]
fn job_rows_omit_expected_times_in_the_past() {
    let mut snapshot = snapshot();
    let forecast = Forecast::from_snapshot(&snapshot, |_| true);
    snapshot.now = Time::from_millis(START + 11 * 60_000);
    let rows = rows(&snapshot, Some(&forecast));
    let starts: Vec<_> = rows
        .iter()
        .map(|row| row.expected_start.is_some())
        .collect();
    assert_eq!(starts, [false, false, true, false]);
    assert_eq!(rows[0].expected_end, None);
}

/// External gangs have no TrainingJob: their state comes from the pods and the PodGroup.
#[test]
fn external_gangs_have_phase_and_reason_like_jobs() {
    let (context, _heard) = Context::new();
    let see = |pod: Value| {
        let pod: SlimPod = serde_json::from_value(pod).unwrap();
        context
            .cache
            .external_pods
            .apply(&Key::from_meta(&pod.metadata), &pod, |_, _| true);
    };
    let pod = |name: &str, node: Option<&str>, phase: &str, labels: Value| {
        let message = "QuotaExceeded: needs 4 nvidia.com/gpu";
        see(json!({
            "metadata": {"name": name, "namespace": "a", "uid": name, "labels": labels,
                "creationTimestamp": "2027-01-15T08:00:00Z",
                "annotations": {"trellis.dev/placed-in": "default"}},
            "spec": {"schedulerName": "trellis", "nodeName": node, "containers": [{"name": "c"}]},
            "status": {"phase": phase, "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": message}]},
        }));
    };
    pod("alone", None, "Pending", json!({}));
    for (name, phase) in [("g-0", "Running"), ("g-1", "Pending")] {
        pod(
            name,
            Some("n"),
            phase,
            json!({"trellis.dev/pod-group": "g"}),
        );
    }
    let group: trellis_api::PodGroup = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "a", "creationTimestamp": "2027-01-15T07:00:00Z"},
        "spec": {"minMember": 2},
        "status": {"phase": "Pending", "reason": "InsufficientCapacity", "message": "8 are missing"},
    }))
    .unwrap();
    context
        .cache
        .pod_groups
        .insert_observed(Key::new("a", "g"), group);
    let find = |name: &str| ExternalGang::find(&context.cache, &Key::new("a", name));
    assert!(find("g").is_none(), "that is a job");
    let reason = |external: &ExternalGang| {
        external
            .reason(false)
            .map(|(reason, words)| (reason.as_str(), words))
    };
    let alone = find("Pod/alone").unwrap();
    let leaving = alone.reason(true).unwrap();
    assert_eq!(leaving, (Reason::Preempting, NOMINATED_MESSAGE.to_owned()));
    assert_eq!(alone.phase(false), JobPhase::Queued);
    let quota = ("QuotaExceeded", "needs 4 nvidia.com/gpu".to_owned());
    assert_eq!(reason(&alone), Some(quota));
    let gang = find("PodGroup/g").unwrap();
    assert_eq!(gang.phase(true), JobPhase::Starting, "one of them runs");
    let capacity = ("InsufficientCapacity", "8 are missing".to_owned());
    assert_eq!(reason(&gang), Some(capacity.clone()));
    // The PodGroup has the reason.
    let message = gang
        .reason(true)
        .map(|(reason, words)| (reason.as_str(), words));
    assert_eq!(message, Some(capacity));
    assert_eq!(
        gang.creation_time().unwrap().0.to_string(),
        "2027-01-15T07:00:00Z"
    );
    pod(
        "g-1",
        Some("n"),
        "Running",
        json!({"trellis.dev/pod-group": "g"}),
    );
    assert_eq!(find("PodGroup/g").unwrap().phase(true), JobPhase::Running);

    let mut engine = Engine::new();
    engine.apply_queue(EngineQueue::new(QueueName::new("default")));
    engine.apply_gang(self::gang("a/Pod/alone", 1, START, None));
    engine.cycle(Time::from_millis(START));
    let snapshot = engine.snapshot();
    let facts = JobRowSources {
        snapshot: &snapshot,
        positions: &snapshot.positions(),
        forecast: None,
        job,
        external_gang: |key: &Key| ExternalGang::find(&context.cache, key),
        queue,
    };
    let rows = facts.rows();
    assert_eq!(rows[0].reason, Some(Reason::QuotaExceeded));
    assert_eq!(rows[0].phase, Some(JobPhase::Queued));
    assert_eq!(rows[0].metadata.name.as_deref(), Some("pod.alone"));
}

/// A nominated pod does not hold its place yet.
#[test]
fn nominated_external_pod_is_queued() {
    let mut engine = Engine::new();
    let offers = Resources::new()
        .with("nvidia.com/gpu", 4)
        .with("cpu", 64_000)
        .with("pods", 110);
    engine.apply_node(Node::new(NodeName::new("n"), offers));
    engine.apply_queue(EngineQueue {
        preemption: PreemptionPolicy {
            within_queue: WithinQueuePolicy::LowerPriority,
            reclaim: ReclaimPolicy::Never,
            borrow_within: BorrowWithinPolicy::Never,
        },
        ..EngineQueue::new(QueueName::new("default"))
    });
    engine.apply_gang(gang("a/victim", 1, START, None));
    engine.cycle(Time::from_millis(START));
    engine.apply_gang(Gang {
        priority: 1,
        ..gang("a/Pod/urgent", 1, START, None)
    });
    let minute = Time::from_millis(START + 60_000);
    let decided = engine.cycle(minute);
    assert!(
        matches!(decided[..], [Decision::Preempt { .. }]),
        "{decided:?}"
    );
    let (context, _heard) = Context::new();
    let pod: SlimPod = serde_json::from_value(json!({
        "metadata": {"name": "urgent", "namespace": "a", "uid": "u"},
        "spec": {"schedulerName": "trellis", "containers": [{"name": "c"}]},
        "status": {"phase": "Pending"},
    }))
    .unwrap();
    context
        .cache
        .external_pods
        .apply(&Key::from_meta(&pod.metadata), &pod, |_, _| true);
    let snapshot = engine.snapshot();
    let forecast = Forecast::from_snapshot(&snapshot, |_| true);
    let facts = JobRowSources {
        snapshot: &snapshot,
        positions: &snapshot.positions(),
        forecast: Some(&forecast),
        job,
        external_gang: |key: &Key| ExternalGang::find(&context.cache, key),
        queue,
    };
    let rows = facts.rows();
    let mut iter = rows.iter();
    let urgent = iter.find(|row| row.metadata.name.as_deref() == Some("pod.urgent"));
    let urgent = urgent.unwrap();
    let reason = (urgent.phase, urgent.position, urgent.reason);
    let expected = (Some(JobPhase::Queued), None, Some(Reason::Preempting));
    assert_eq!(reason, expected);
    assert!(urgent.expected_start.is_some(), "{urgent:?}");
    assert_eq!(
        urgent.since.0.as_millisecond(),
        START,
        "it has waited since"
    );
}

#[test]
fn surplus_pods_are_counted_with_their_job() {
    let mut engine = Engine::new();
    let offers = Resources::new()
        .with("nvidia.com/gpu", 8)
        .with("cpu", 64_000)
        .with("pods", 110);
    engine.apply_node(Node::new(NodeName::new("n"), offers));
    let quota = |resource: &str, nominal: i64| {
        let quota = Quota {
            nominal,
            borrowing_limit: None,
            lending_limit: None,
        };
        (ResourceName::new(resource), quota)
    };
    let queue = EngineQueue::new(QueueName::new("default"));
    let quotas = [quota("nvidia.com/gpu", 16), quota("cpu", 64_000)];
    engine.apply_queue(queue.with_quotas(quotas));
    engine.apply_gang(gang("a/elastic", 1, START, None));
    for more in ["a/elastic/w-1", "a/elastic/w-2"] {
        engine.apply_gang(Gang {
            surplus: true,
            ..gang(more, 1, START, None)
        });
    }
    engine.cycle(Time::from_millis(START));
    let rows = rows(&engine.snapshot(), None);
    let [row] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    // One of the two has room.
    assert_eq!((row.gpus, row.pods, row.position), (8, 2, None));
    let holds: Vec<_> = row.holds.iter().collect();
    let amounts: Vec<_> = holds.iter().map(|hold| hold.amount.as_str()).collect();
    assert_eq!(amounts, ["2", "8"], "{holds:?}");
    assert_eq!(
        format_holds(&row.holds),
        "2 cpu of default, 8 nvidia.com/gpu of default"
    );
}

#[test]
fn job_row_has_a_cell_for_each_column() {
    let snapshot = snapshot();
    let forecast = Forecast::from_snapshot(&snapshot, |_| true);
    for mut row in rows(&snapshot, Some(&forecast)) {
        let now = Timestamp::from_millisecond(START).unwrap();
        row.node_count = row.node_count.map(|_| 20);
        let cells = row.cells(now);
        assert_eq!(cells.len(), JobState::COLUMNS.len());
        for (cell, column) in cells.iter().zip(JobState::COLUMNS) {
            assert_eq!(
                cell.is_number(),
                column.kind == "integer",
                "{}",
                column.name
            );
        }
        if row.position.is_none() {
            assert_eq!(cells[12], "gpu-0,gpu-1,+18");
            assert_eq!(cells[9], "10m");
        }
    }
}
