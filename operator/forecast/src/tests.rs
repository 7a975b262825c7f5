//! Forecasts of changed clusters.

use std::cell::Cell;
use std::time::Duration;

use trellis_api::visibility::{
    ExpectedTimes, ForecastEffect, ForecastSpec, ForecastStatus, MovedJob,
};
use trellis_gang::engine::to_timestamp;
use trellis_scheduler::{
    Engine, Gang, GangId, GroupName, Node, NodeName, Placement, PodKey, Queue, QueueName, Quota,
    ResourceName, Resources, Snapshot, TaskGroup, Time,
};

use super::*;

const MINUTE: i64 = 60_000;

fn gpus(count: i64) -> Resources {
    Resources::new().with("nvidia.com/gpu", count)
}

fn gang(name: &str, pods: u32, minutes: u64) -> Gang {
    let group = TaskGroup::new(
        GroupName::new("worker"),
        pods,
        gpus(8),
        format!("{name}-worker"),
    );
    let id = GangId::new(format!("team-a/{name}"));
    Gang {
        runtime: Some(Duration::from_secs(minutes.saturating_mul(60))),
        ..Gang::new(id, QueueName::new("research"), vec![group])
    }
}

/// Two nodes of 8 GPUs and a quota of 16. `running` holds both for 60 minutes; `next` (one node, 30
/// minutes) and `big` (two nodes) wait.
fn busy_cluster() -> Snapshot {
    let mut engine = Engine::new();
    for name in ["gpu-0", "gpu-1"] {
        let offers = gpus(8).with("pods", 110);
        engine.apply_node(Node::new(NodeName::new(name), offers));
    }
    let quota = Quota {
        nominal: 16,
        borrowing_limit: None,
        lending_limit: None,
    };
    let queue = Queue::new(QueueName::new("research"));
    engine.apply_queue(queue.with_quotas([(ResourceName::new("nvidia.com/gpu"), quota)]));
    engine.apply_gang(gang("running", 2, 60));
    assert_eq!(engine.cycle(Time::from_millis(0)).len(), 1);
    for index in 0..2 {
        let pod = PodKey::new(format!("team-a/running-worker-{index}"));
        engine.apply_pod(pod, NodeName::new(format!("gpu-{index}")), gpus(8));
    }
    for (name, pods, minutes, at) in [("next", 1, 30, 1), ("big", 2, 30, 2)] {
        engine.apply_gang(Gang {
            submitted: Time::from_millis(at),
            ..gang(name, pods, minutes)
        });
    }
    engine.advance(Time::from_millis(10 * MINUTE));
    engine.snapshot()
}

fn spec(changes: &str) -> ForecastSpec {
    serde_saphyr::from_str(&format!("{{changes: {changes}}}")).unwrap()
}

fn forecast_in(cluster: &Snapshot, changes: &str) -> Result<ForecastStatus, InvalidChanges> {
    forecast_changes(cluster, &spec(changes), || |moments| moments < 1_000)
}

fn forecast(changes: &str) -> Result<ForecastStatus, InvalidChanges> {
    forecast_in(&busy_cluster(), changes)
}

/// Returns `effect before→after` of a job in minutes from the epoch, with `-` for no known start.
fn moved(
    status: &ForecastStatus,
    name: &str,
) -> Option<(ForecastEffect, Option<i64>, Option<i64>)> {
    let job: &MovedJob = status.jobs.iter().find(|job| job.job.name == name)?;
    let start = |times: &Option<ExpectedTimes>| {
        let at = times.as_ref()?.start.as_ref()?;
        at.0.as_millisecond().checked_div(MINUTE)
    };
    Some((job.effect, start(&job.before), start(&job.after)))
}

#[test]
fn without_changes_no_job_moves() {
    let status = forecast("[]").unwrap();
    assert_eq!((status.jobs.len(), status.unmoved), (0, 3));
    assert_eq!(status.time.0, to_timestamp(Time::from_millis(10 * MINUTE)));
    assert_eq!(status.horizon, None);
}

#[test]
fn added_node_without_quota_moves_no_job() {
    let status = forecast("[{addNodes: {like: gpu-0, count: 1}}]").unwrap();
    assert_eq!(status.jobs, []);
}

#[test]
fn added_node_and_quota_start_the_waiting_job_now() {
    let status = forecast(
        "[{addNodes: {like: gpu-0, count: 1}},
          {changeQueue: {name: research, quotas: [{resource: nvidia.com/gpu, nominal: 24}]}}]",
    )
    .unwrap();
    let earlier = |before, after| Some((ForecastEffect::Earlier, Some(before), Some(after)));
    assert_eq!(moved(&status, "next"), earlier(60, 10));
    // `big` starts when `running` ends, and no longer waits for `next`.
    assert_eq!(moved(&status, "big"), earlier(90, 60));
    assert_eq!(status.unmoved, 1);
}

#[test]
fn removed_node_stops_the_job_on_it() {
    let status = forecast("[{removeNode: {name: gpu-1}}]").unwrap();
    let job = status
        .jobs
        .iter()
        .find(|job| job.job.name == "running")
        .unwrap();
    assert_eq!(job.effect, ForecastEffect::Stops);
    assert!(job.before.as_ref().unwrap().placed && !job.after.as_ref().unwrap().placed);
    assert_eq!(
        moved(&status, "next"),
        Some((ForecastEffect::Earlier, Some(60), Some(10)))
    );
    // Two nodes never exist again.
    assert_eq!(
        moved(&status, "big"),
        Some((ForecastEffect::Later, Some(90), None))
    );
}

#[test]
fn cordoned_node_lets_its_job_end_and_takes_no_other() {
    let status = forecast("[{cordonNode: {name: gpu-1}}]").unwrap();
    assert_eq!(moved(&status, "running"), None);
    assert_eq!(
        moved(&status, "big"),
        Some((ForecastEffect::Later, Some(90), None))
    );
    let status = forecast("[{cordonNode: {name: gpu-1}}, {restoreNode: {name: gpu-1}}]").unwrap();
    assert_eq!(status.jobs, []);
}

#[test]
fn priority_of_a_job_changes_the_order() {
    let status = forecast("[{changeJob: {namespace: team-a, name: big, priority: 10}}]").unwrap();
    assert_eq!(
        moved(&status, "big"),
        Some((ForecastEffect::Earlier, Some(90), Some(60)))
    );
    assert_eq!(
        moved(&status, "next"),
        Some((ForecastEffect::Later, Some(60), Some(90)))
    );
}

#[test]
fn removed_job_makes_room() {
    let status = forecast("[{removeJob: {namespace: team-a, name: running}}]").unwrap();
    assert_eq!(
        moved(&status, "running"),
        Some((ForecastEffect::Removed, None, None))
    );
    assert_eq!(
        moved(&status, "next"),
        Some((ForecastEffect::Earlier, Some(60), Some(10)))
    );
}

#[test]
fn added_jobs_wait_behind_those_before_them() {
    let status = forecast(
        "[{addJob: {namespace: team-b, name: late, count: 2, like: {namespace: team-a, name: next}}},
          {addJob: {namespace: team-b, name: own, queue: research, priority: 5, runtimeSeconds: 600,
             groups: [{replicas: 1, requests: {nvidia.com/gpu: 8}}]}}]",
    )
    .unwrap();
    let added = |start| Some((ForecastEffect::Added, None, Some(start)));
    // The one of higher priority starts with `next`, which fills the other node.
    assert_eq!(moved(&status, "own"), added(60));
    assert_eq!(moved(&status, "next"), None);
    let late: Vec<_> = ["late-1", "late-2"].map(|name| moved(&status, name)).into();
    assert!(
        late.iter()
            .all(|job| job.is_some_and(|job| job.2 > Some(60))),
        "{late:?}"
    );
}

#[test]
fn shorter_run_ends_earlier() {
    let status =
        forecast("[{changeJob: {namespace: team-a, name: running, runtimeSeconds: 1200}}]")
            .unwrap();
    assert_eq!(
        moved(&status, "running"),
        Some((ForecastEffect::OtherEnd, None, None))
    );
    assert_eq!(
        moved(&status, "next"),
        Some((ForecastEffect::Earlier, Some(60), Some(20)))
    );
}

#[test]
fn runtime_counts_although_a_prediction_is_shorter() {
    let mut cluster = busy_cluster();
    for known in &mut cluster.gangs {
        known.gang.predicted = Some(Duration::from_secs(30 * 60));
    }
    let change = "[{changeJob: {namespace: team-a, name: running, runtimeSeconds: 7200}}]";
    let status = forecast_in(&cluster, change).unwrap();
    let next = moved(&status, "next");
    assert_eq!(next, Some((ForecastEffect::Later, Some(30), Some(120))));
}

#[test]
fn restarting_job_cannot_change_and_others_can() {
    let mut cluster = busy_cluster();
    for known in &mut cluster.gangs {
        known.idle = known.gang.id.as_str() == "team-a/next";
    }
    let ask = |name: &str| {
        let change = format!("[{{changeJob: {{namespace: team-a, name: {name}, priority: 1}}}}]");
        forecast_in(&cluster, &change)
    };
    assert_eq!(
        ask("next").unwrap_err().to_string(),
        "spec.changes[0].changeJob.name: team-a/next restarts: ask again when it waits or runs"
    );
    assert!(ask("big").is_ok());
}

#[test]
fn surplus_leaves_with_its_job() {
    let mut engine = Engine::from_snapshot(&busy_cluster());
    engine.apply_node(Node::new(NodeName::new("gpu-2"), gpus(8).with("pods", 110)));
    let surplus = Gang {
        surplus: true,
        ..gang("running/worker-2", 1, 60)
    };
    let mut placement = Placement::new();
    placement.push(GroupName::new("worker"), vec![(NodeName::new("gpu-2"), 1)]);
    engine.restore_gang(surplus, placement, Time::from_millis(0));
    let cluster = engine.snapshot();
    let ask = |change: &str| forecast_in(&cluster, &format!("[{change}]")).unwrap();
    // The job starts again on both nodes that are left.
    let status = ask("{removeNode: {name: gpu-0}}");
    let running = moved(&status, "running");
    assert_eq!(running, Some((ForecastEffect::Stops, None, Some(10))));
    let status = ask("{removeJob: {namespace: team-a, name: running}}");
    let next = moved(&status, "next");
    assert_eq!(next, Some((ForecastEffect::Earlier, Some(60), Some(10))));
    // A surplus pod on a removed node leaves alone.
    let status = ask("{removeNode: {name: gpu-2}}");
    assert_eq!(moved(&status, "running"), None);
}

#[test]
fn drained_queue_stops_its_jobs() {
    let status = forecast("[{changeQueue: {name: research, stopPolicy: HoldAndDrain}}]").unwrap();
    assert_eq!(
        moved(&status, "running"),
        Some((ForecastEffect::Stops, None, None))
    );
    assert_eq!(
        moved(&status, "next"),
        Some((ForecastEffect::Later, Some(60), None))
    );
}

#[test]
fn forecasts_that_stop_early_are_compared_up_to_the_earlier_end() {
    // Without the changes, the forecast stops after the start of `next`, and with them before that.
    let limits = Cell::new(vec![1, 3]);
    let new_limit = || {
        let mut left = limits.take();
        let most = left.pop().unwrap();
        limits.set(left);
        move |moments| moments < most
    };
    let spec = spec("[{changeQueue: {name: research, priority: 1}}]");
    let status = forecast_changes(&busy_cluster(), &spec, new_limit).unwrap();
    assert_eq!((status.jobs, status.unmoved), (Vec::new(), 3));
    let end_of_running = to_timestamp(Time::from_millis(60 * MINUTE));
    assert_eq!(
        status.horizon.map(|horizon| horizon.0),
        Some(end_of_running)
    );
}

#[test]
fn every_change_that_cannot_be_made_is_named() {
    let refused = |changes: &str| forecast(changes).unwrap_err().to_string();
    for (changes, message) in [
        (
            "[{removeNode: {name: gpu-9}}]",
            r#"spec.changes[0].removeNode.name: no node is named "gpu-9": `trellis nodes` lists them"#,
        ),
        (
            "[{addNodes: {like: gpu-0, count: 0}}]",
            "spec.changes[0].addNodes.count: must be at least 1",
        ),
        (
            "[{addNodes: {like: gpu-0, count: 9000}}, {addNodes: {like: gpu-0, count: 1001}}]",
            "spec.changes[1].addNodes.count: all changes together add 10001 nodes: at most 10000 can be added",
        ),
        (
            "[{addNodes: {like: gpu-0, count: 1, labels: {rack: a b}}}]",
            "spec.changes[0].addNodes.labels: every label value must be at most 63 letters, digits, -, _ and ., starting and ending with a letter or digit",
        ),
        (
            "[{addJob: {namespace: team-a, name: x, queue: research, groups: [{replicas: 10001, requests: {cpu: 1}}]}}]",
            "spec.changes[0].addJob.groups: 10001 pods are too many: a job has at most 10000",
        ),
        (
            "[{changeQueue: {name: vision}}]",
            r#"spec.changes[0].changeQueue.name: no queue is named "vision": `trellis queue` lists them"#,
        ),
        (
            "[{changeQueue: {name: research, quotas: [{resource: cpu, nominal: 1}]}}]",
            "spec.changes[0].changeQueue.quotas[0].resource: queue research has no quota of cpu: name a resource of its quotas",
        ),
        (
            "[{changeQueue: {name: research, quotas: [{resource: nvidia.com/gpu, flavor: h100}]}}]",
            "spec.changes[0].changeQueue.quotas[0].flavor: the quota of nvidia.com/gpu has the flavors default: name one of them",
        ),
        (
            "[{changeQueue: {name: research, quotas: [{resource: nvidia.com/gpu, nominal: -1}]}}]",
            "spec.changes[0].changeQueue.quotas[0].nominal: the amount -1 of nvidia.com/gpu must not be negative",
        ),
        (
            "[{changeJob: {namespace: team-a, name: gone}}]",
            "spec.changes[0].changeJob.name: no job team-a/gone waits or runs: `trellis queue -A` lists them",
        ),
        (
            "[{changeJob: {namespace: team-a, name: running, queue: research}}]",
            "spec.changes[0].changeJob.queue: team-a/running holds its place: only a waiting job changes its queue",
        ),
        (
            "[{changeJob: {namespace: team-a, name: next, runtimeSeconds: 0}}]",
            "spec.changes[0].changeJob.runtimeSeconds: must be at least 1",
        ),
        (
            "[{changeJob: {namespace: team-a, name: running, runtimeSeconds: 600}}]",
            "spec.changes[0].changeJob.runtimeSeconds: team-a/running has run for 600 s: give more",
        ),
        (
            "[{addJob: {namespace: team-a, name: A_b, like: {namespace: team-a, name: next}}}]",
            r#"spec.changes[0].addJob.name: "A_b" must be a DNS-1035 label, since a Service bears it: at most 63 of a-z, 0-9 and -, starting with a letter and not ending with -"#,
        ),
        (
            "[{addJob: {namespace: team-a, name: x}}]",
            "spec.changes[0].addJob.like: give either `like` or `groups`: the shape of the job",
        ),
        (
            "[{addJob: {namespace: team-a, name: x, groups: [{replicas: 1, requests: {cpu: 1}}]}}]",
            "spec.changes[0].addJob.queue: is needed with `groups`",
        ),
        (
            "[{addJob: {namespace: team-a, name: x, queue: research, groups: [{replicas: 1, requests: {}}]}}]",
            "spec.changes[0].addJob.groups[0].requests: must name at least one resource, and more than 0 of it",
        ),
        (
            "[{addJob: {namespace: team-a, name: next, like: {namespace: team-a, name: next}}}]",
            "spec.changes[0].addJob.name: job team-a/next exists: choose another name",
        ),
    ] {
        assert_eq!(refused(changes), message, "{changes}");
    }
    let two = refused(
        "[{removeNode: {name: a}}, {removeNode: {name: gpu-0}}, {cordonNode: {name: gpu-0}}]",
    );
    assert!(
        two.contains("changes[0].removeNode") && two.contains("changes[2].cordonNode"),
        "{two}"
    );
    let many = vec!["{removeNode: {name: a}}"; 65].join(",");
    assert_eq!(
        refused(&format!("[{many}]")),
        "spec.changes: 65 changes are too many: a forecast makes at most 64"
    );
}
