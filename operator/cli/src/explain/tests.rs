use serde_json::{Value, json};
use trellis_api::Reason;
use trellis_api::visibility::{Explanation, JobState};
use trellis_reads::events::EventLine;
use trellis_reads::explain::{ExplainFacts, ExplainedObject};

use super::*;

fn explain_facts(status: Value, explanation: Value, queue: Value) -> ExplainFacts {
    let job = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "llm", "namespace": "team-a"},
        "spec": {"taskGroups": []}, "status": status,
    });
    ExplainFacts {
        subject: ExplainedObject::Job(serde_json::from_value(job).unwrap()),
        gang_name: None,
        job_state: None,
        explanation: serde_json::from_value(explanation).unwrap(),
        queue: serde_json::from_value(queue).unwrap(),
        events: Vec::new(),
        notes: Vec::new(),
    }
}

fn text(known: &ExplainFacts, wide: bool) -> String {
    let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    anstream::adapter::strip_str(&view::render(known, now, wide, 96)).to_string()
}

fn pending_facts() -> ExplainFacts {
    let status = json!({"phase": "Queued", "reason": "InsufficientCapacity", "message": "older",
        "queue": "research", "queuedTime": "2026-01-01T11:48:00Z", "policy": {"decision": "Allowed",
            "policies": ["ClusterJobPolicy/starter/images", "ClusterJobPolicy/starter/queues"],
            "warnings": ["warn-only: the image has no digest"]}});
    let explanation = json!({
        "apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "Explanation",
        "metadata": {"namespace": "team-a", "name": "llm"}, "time": "2026-01-01T12:00:00Z",
        "queue": "research", "priority": 100, "position": 1, "reason": "InsufficientCapacity",
        "message": "needs 16 nvidia.com/gpu, 8 are free on 2 matching nodes: 8 are missing; gangs hold 8, other pods 0",
        "shortage": {"resource": "nvidia.com/gpu", "needs": "16", "free": "8", "missing": "8",
            "heldByJobs": "8", "heldByOthers": "0", "nodes": 2, "pods": 2, "room": 1},
        "taskGroups": [{"name": "worker", "pods": 2, "requests": [{"resource": "nvidia.com/gpu", "amount": "8"}],
            "nodes": 6, "matching": 2, "room": 1,
            "excluded": [
                {"constraint": "NodeSelector", "detail": "pool=h100", "count": 3, "nodes": ["a-1", "a-2", "a-3"]},
                {"constraint": "Unhealthy", "detail": "GpuMemWatch", "count": 1, "nodes": ["b-9"]}],
            "candidates": [
                {"node": "b-1", "room": 1, "free": [{"resource": "nvidia.com/gpu", "amount": "8"}]},
                {"node": "b-2", "room": 0, "free": [{"resource": "nvidia.com/gpu", "amount": "0"}]}]}],
        "preempts": [{"namespace": "team-b", "name": "bert", "because": "has a lower priority (0)"}],
        "reservedNodes": ["b-1", "b-2"], "expectedStart": "2026-01-01T13:03:20Z",
        "smallestChange": {"free": [{"node": "b-2", "amounts": [{"resource": "nvidia.com/gpu", "amount": "8"}]}]},
    });
    let queue = json!({"apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "QueueState",
        "metadata": {"name": "research"}, "weight": 1, "pending": 3, "admitted": 9, "share": "0.4",
        "resources": [{"flavor": "default", "resource": "nvidia.com/gpu", "nominalQuota": "64",
            "used": "48", "borrowed": "0", "lendable": "16", "available": "16"}]});
    let mut known = explain_facts(status, explanation, queue);
    let event = |reason: &str, note: &str, count, last: &str| EventLine {
        type_: "Normal".to_owned(),
        reason: reason.to_owned(),
        note: note.to_owned(),
        count,
        last: last.parse().unwrap(),
    };
    known.events = vec![
        event(
            "Queued",
            "waits in queue research",
            1,
            "2026-01-01T11:48:00Z",
        ),
        event(
            "InsufficientCapacity",
            "needs 16 nvidia.com/gpu, 4 are free",
            3,
            "2026-01-01T11:55:00Z",
        ),
    ];
    known
}

#[test]
fn job_waits_for_nodes() {
    insta::assert_snapshot!(text(&pending_facts(), false));
}

#[test]
fn job_that_can_never_start_has_neither_a_turn_nor_a_start() {
    for reason in Reason::ALL.iter().copied() {
        let mut known = pending_facts();
        let explanation = known.explanation.as_mut().unwrap();
        explanation.reason = Some(reason);
        explanation.expected_start = None;
        let text = text(&known, false);
        let is_impossible = text.contains("can never start as it is");
        assert_eq!(is_impossible, reason.requires_change(), "{text}");
        assert_eq!(text.contains("number 1 of queue"), !is_impossible, "{text}");
        assert_eq!(text.contains("no expected start"), !is_impossible, "{text}");
    }
    assert_eq!(
        Reason::ALL
            .iter()
            .filter(|reason| reason.requires_change())
            .count(),
        4
    );
}

#[test]
fn job_with_nodes_on_order_waits_for_no_gang() {
    let mut known = pending_facts();
    let explanation = known.explanation.as_mut().unwrap();
    explanation.reason = Some(Reason::Provisioning);
    explanation.expected_start = None;
    let text = text(&known, false);
    let start = "no expected start: the autoscaler does not say when the nodes are ready";
    assert!(text.contains(start), "{text}");
}

#[test]
fn job_waits_for_quota() {
    let mut known = pending_facts();
    let explanation = known.explanation.as_mut().unwrap();
    explanation.task_groups.clear();
    explanation.preempts.clear();
    explanation.reserved_nodes.clear();
    explanation.expected_start = None;
    explanation.smallest_change = serde_json::from_value(json!({
        "raiseQuotas": [{"queue": "research", "field": "nominalQuota", "flavor": "h100",
            "resource": "nvidia.com/gpu", "by": "8"}],
        "raiseLimits": [{"limit": "QuotaPolicy team limits[0]", "by": "1"}]}))
    .unwrap();
    insta::assert_snapshot!(text(&known, false));
}

#[test]
fn changes_of_the_request_are_listed_with_their_fields() {
    let mut known = pending_facts();
    let explanation = known.explanation.as_mut().unwrap();
    explanation.request_changes = serde_json::from_value(json!([
        {"field": "spec.topology", "value": "{required: block, preferred: rack}"},
        {"field": "spec.taskGroups[worker].flavors", "value": "[a100]"}]))
    .unwrap();
    let text = text(&known, false);
    for line in [
        "The job would start now with any one of these changes",
        "  spec.topology: {required: block, preferred: rack}",
        "  spec.taskGroups[worker].flavors: [a100]",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn jobs_with_room_on_other_nodes_are_listed_with_their_lost_work() {
    let mut known = pending_facts();
    let explanation = known.explanation.as_mut().unwrap();
    explanation.moves = serde_json::from_value(json!([
        {"namespace": "team-b", "name": "bert", "nodes": ["n3", "n4"], "lostDeviceSeconds": 5400},
        {"namespace": "team-c", "name": "t5", "lostDeviceSeconds": 0}]))
    .unwrap();
    let text = text(&known, false);
    for line in [
        "It would start if these jobs moved",
        "team-b/bert to n3, n4: loses 1.5 device-hours of work",
        "team-c/t5: loses 0.0 device-hours of work",
        "suspend all of these jobs",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

/// Without an explanation of the engine, the reason comes from the status.
#[test]
fn job_is_denied_or_runs() {
    let denied = json!({"phase": "Refused", "reason": "PolicyDenied", "message": "no policy permits it",
        "policy": {"decision": "Denied", "missingPermits": ["permit (\n  principal == Trellis::Namespace::\"team-a\",\n  action, resource);"],
            "errors": ["policy x: no such attribute"]}});
    insta::assert_snapshot!(text(
        &explain_facts(denied, Value::Null, Value::Null),
        false
    ));
    let running = json!({"phase": "Running", "reason": "Running", "message": "all 2 pods run"});
    let mut running = explain_facts(running, Value::Null, Value::Null);
    running.notes.push("no scheduler answers now".to_owned());
    let output = text(&running, false);
    assert!(
        output.starts_with("team-a/llm  Running\n  Running: all 2 pods run\nnote: no scheduler"),
        "{output}"
    );
}

#[test]
fn running_job_shows_how_its_ranks_follow_the_topology() {
    let facts = |levels: Value| {
        let status = json!({"phase": "Running", "reason": "Running", "message": "all 12 pods run",
            "placement": levels});
        text(&explain_facts(status, Value::Null, Value::Null), false)
    };
    let block = json!({"level": "block", "domains": 1, "crossings": 0, "leastCrossings": 0});
    let ordered = json!({"level": "rack", "domains": 3, "crossings": 3, "leastCrossings": 3});
    let text = facts(json!([block, ordered]));
    assert!(text.contains("block   1         0           0"), "{text}");
    assert!(!text.contains("at least"), "{text}");
    let grown = json!({"level": "rack", "domains": 3, "crossings": 5, "leastCrossings": 3});
    insta::assert_snapshot!(facts(json!([block, grown])));
    assert!(!facts(json!([])).contains("Placement"));
}

/// Names of other teams' jobs and nodes are hidden from this user.
#[test]
fn hidden_nodes_and_holders_are_counted_and_not_named() {
    let mut known = pending_facts();
    let explanation = known.explanation.as_mut().unwrap();
    explanation.preempts.clear();
    explanation.preempts_others =
        serde_json::from_value(json!([{"count": 2, "priority": 1}, {"count": 1}])).unwrap();
    explanation.protected = serde_json::from_value(json!([
        {"until": "2026-11-21T15:30:00Z"},
        {"job": {"namespace": "team-a", "name": "ours"}, "until": "2026-11-21T15:40:00Z"},
    ]))
    .unwrap();
    for group in &mut explanation.task_groups {
        group.candidates.clear();
        group
            .excluded
            .iter_mut()
            .for_each(|excluded| excluded.nodes.clear());
    }
    explanation.shortage = serde_json::from_value(json!({"behindPriority": 7})).unwrap();
    let output = text(&known, true);
    for line in [
        "2 jobs in namespaces that you may not see, priority 1",
        "1 job in namespaces that you may not see\n",
        "a job that you may not see, priority 7",
        "a job in a namespace that you may not see can be preempted from 2026-11-21T15:30:00Z on",
        "team-a/ours can be preempted from 2026-11-21T15:40:00Z on",
    ] {
        assert!(output.contains(line), "{line}: {output}");
    }
    assert!(!output.contains(", ..."), "{output}");
}

/// The stored object of external pods gives the reason until the engine does.
fn external_facts(
    kind: &str,
    object: Value,
    row: Value,
    explanation: Option<Explanation>,
) -> ExplainFacts {
    let subject = match kind {
        "PodGroup" => ExplainedObject::PodGroup(serde_json::from_value(object).unwrap()),
        _ => ExplainedObject::Pod(serde_json::from_value(object).unwrap()),
    };
    let job_state: Option<JobState> = serde_json::from_value(row).unwrap();
    let row = job_state.as_ref().map(|row| &row.metadata);
    let metadata = explanation.as_ref().map(|metadata| &metadata.metadata);
    let object_name = row.or(metadata).and_then(|meta| meta.name.as_deref());
    ExplainFacts {
        subject,
        gang_name: object_name.map(GangName::from_object_name),
        job_state,
        explanation,
        ..explain_facts(Value::Null, Value::Null, Value::Null)
    }
}

fn pod(scheduled: Value) -> Value {
    json!({
        "metadata": {"name": "w-0", "namespace": "team-a", "labels": {"trellis.dev/pod-group": "sweep"}},
        "spec": {"schedulerName": "trellis", "containers": []},
        "status": {"phase": "Pending", "conditions": [scheduled]},
    })
}

#[test]
fn external_pods_wait_for_nodes() {
    let group = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "sweep", "namespace": "team-a"}, "spec": {"minMember": 2},
        "status": {"reason": "InsufficientCapacity", "message": "older"},
    });
    let row = json!({
        "apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "JobState",
        "metadata": {"name": "podgroup.sweep", "namespace": "team-a"}, "queue": "research",
        "priority": 0, "phase": "Queued", "position": 1, "gpus": 16, "pods": 2,
        "submitted": "2026-01-01T11:00:00Z", "since": "2026-01-01T11:30:00Z",
    });
    let mut explanation = pending_facts().explanation.unwrap();
    explanation.metadata.name = Some("podgroup.sweep".to_owned());
    let change = explanation.smallest_change.as_mut().unwrap();
    let gpus = |amount: &str| json!([{"resource": "nvidia.com/gpu", "amount": amount}]);
    change.free[0].held_by = serde_json::from_value(json!([
        {"namespace": "team-b", "name": "bert", "amounts": gpus("5"), "state": "Running"},
        {"namespace": "team-b", "name": "pod.x", "amounts": gpus("2"), "state": "Stopping"},
        // Without a state: some pods of this gang run, and some do not run yet.
        {"namespace": "team-b", "name": "some", "amounts": gpus("1")},
    ]))
    .unwrap();
    change.free[0].held_by_more = Some(1);
    let known = external_facts("PodGroup", group, row, Some(explanation));
    insta::assert_snapshot!(text(&known, false));
    // The output for scripts has the object under its kind.
    let written = serde_json::to_value(&known).unwrap();
    assert_eq!(written["podGroup"]["metadata"]["name"], "sweep");
    assert_eq!(written["jobState"]["position"], 1);
}

/// The engine does not know a gang with missing members or missing objects.
#[test]
fn external_pods_unknown_to_the_engine_show_their_stored_reason() {
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "MembersMissing: PodGroup sweep lacks pods"});
    let known = external_facts("Pod", pod(condition), Value::Null, None);
    let names: Vec<_> = known
        .subject
        .gang_names()
        .iter()
        .map(GangName::object_name)
        .collect();
    assert_eq!(names, ["pod.w-0", "podgroup.sweep"]);
    let output = text(&known, false);
    let begin = "team-a/Pod/w-0  Waiting\n  MembersMissing: PodGroup sweep lacks pods\n";
    assert!(output.starts_with(begin), "{output}");
    assert!(
        output.contains("Next steps\n  Check the controller that creates"),
        "{output}"
    );

    let running = json!({"type": "PodScheduled", "status": "True"});
    let mut running = pod(running);
    running["status"]["phase"] = json!("Running");
    let output = text(&external_facts("Pod", running, Value::Null, None), false);
    assert_eq!(output, "team-a/Pod/w-0  Running\n");
    // A message that another controller wrote is shown as it is.
    let row = |position: Value| {
        json!({
            "apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "JobState",
            "metadata": {"name": "podgroup.sweep", "namespace": "team-a"}, "queue": "research",
            "priority": 0, "phase": "Running", "position": position, "gpus": 16, "pods": 2,
            "submitted": "2026-01-01T11:00:00Z", "since": "2026-01-01T11:30:00Z",
        })
    };
    // The pod is refused, and the gang that it would join runs.
    let refused = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "PolicyDenied: no permit for UseImage"});
    let output = text(
        &external_facts("Pod", pod(refused), row(Value::Null), None),
        false,
    );
    let begin = "team-a/Pod/w-0  Waiting\n  PolicyDenied: no permit for UseImage\n\n\
                 team-a/PodGroup/sweep  Running\n\nNext steps\n  Ask the owner of";
    assert!(output.starts_with(begin), "{output}");
    // The pod waits with its gang. The engine knows more than the pod's stored message.
    let explanation = || {
        let mut answer = pending_facts().explanation.unwrap();
        answer.metadata.name = Some("podgroup.sweep".to_owned());
        Some(answer)
    };
    let stored_condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "MembersMissing: PodGroup sweep lacks pods"});
    let mut queued = row(json!(1));
    queued["phase"] = json!("Queued");
    // The gang is nominated and waits for its victims, so it has no position any more.
    let mut nominated = queued.clone();
    nominated["position"] = Value::Null;
    for row in [queued.clone(), nominated, Value::Null] {
        let answer = external_facts("Pod", pod(stored_condition.clone()), row, explanation());
        let output = text(&answer, false);
        let begin = "team-a/Pod/w-0  Queued\n\nteam-a/PodGroup/sweep";
        assert!(output.starts_with(begin), "{output}");
        assert!(
            output.contains("InsufficientCapacity: needs 16"),
            "{output}"
        );
        assert!(!output.contains("MembersMissing"), "{output}");
        assert!(output.contains("Next steps\n  Wait until"), "{output}");
    }
    // A pod that has ended or is gated does not wait with its gang.
    let mut failed = pod(stored_condition.clone());
    failed["status"]["phase"] = json!("Failed");
    failed["status"]["conditions"] = json!([]);
    let output = text(
        &external_facts("Pod", failed, queued.clone(), explanation()),
        false,
    );
    let begin = "team-a/Pod/w-0  Failed\n\nteam-a/PodGroup/sweep  Queued for 30m\n";
    assert!(output.starts_with(begin), "{output}");
    assert!(!output.contains("Next steps"), "{output}");
    let mut kept_back = pod(json!({"type": "PodScheduled", "status": "False",
        "reason": "SchedulingGated", "message": "Scheduling is blocked"}));
    kept_back["spec"]["schedulingGates"] = json!([{"name": "wait"}]);
    let output = text(
        &external_facts("Pod", kept_back, queued, explanation()),
        false,
    );
    let begin = "team-a/Pod/w-0  Waiting\n  Scheduling is blocked\n\nteam-a/PodGroup/sweep  Queued";
    assert!(output.starts_with(begin), "{output}");
    let gated = json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates"});
    let output = text(&external_facts("Pod", pod(gated), Value::Null, None), false);
    assert!(
        output.contains("Waiting\n  Scheduling is blocked"),
        "{output}"
    );
    let none = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "sweep", "namespace": "team-a"}, "spec": {"minMember": 2},
    });
    let output = text(&external_facts("PodGroup", none, Value::Null, None), false);
    assert!(
        output.contains("team-a/PodGroup/sweep  not placed\n"),
        "{output}"
    );
}

/// The job runs, and changed policies deny it now.
#[test]
fn running_job_denied_by_policies_gets_advice() {
    let status = json!({"phase": "Running", "reason": "Running", "message": "all 2 pods run",
        "policy": {"decision": "Denied", "policies": ["ClusterJobPolicy/new/images"]}});
    let output = text(&explain_facts(status, Value::Null, Value::Null), false);
    assert!(
        output.contains("Next steps\n  Policies no longer permit"),
        "{output}"
    );
    assert!(!output.contains("Besides"), "{output}");
    // Additional advice is shown. The text "nothing to do" does not appear beside advice.
    let starts = json!({"phase": "Starting", "reason": "Starting", "message": "1 of 2 pods runs",
        "policy": {"decision": "Denied", "policies": ["ClusterJobPolicy/new/images"]}});
    let output = text(&explain_facts(starts, Value::Null, Value::Null), false);
    let (_, to_do) = output.split_once("Next steps\n").unwrap();
    let to_do = to_do.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(to_do.starts_with("Policies no longer permit"), "{output}");
    assert!(to_do.contains(" Besides: "), "{output}");
    assert!(!to_do.contains("Nothing"), "{output}");
}
