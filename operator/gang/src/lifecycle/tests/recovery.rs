//! Pods that are created while other pods of their attempt exist.

use trellis_api::job::AwaitedGroup;

use super::*;

/// Returns a job with one gang group of two pods, and these fields in the group.
pub(super) fn case_with_group(restart: Value, group: Value) -> JobCase {
    let mut case = JobCase::new(json!({"restart": restart}));
    let mut spec = serde_json::to_value(&case.spec).unwrap();
    for (key, value) in group.as_object().unwrap() {
        spec["taskGroups"][0][key] = value.clone();
    }
    case.spec = serde_json::from_value(spec).unwrap();
    case
}

pub(super) fn elastic_case() -> JobCase {
    case_with_group(json!({}), json!({"replicas": 4, "minReplicas": 2}))
}

/// Adds the pod of this index to those of the plan.
pub(super) fn add_pod(case: &mut JobCase, group: &str, index: u32, round: i64, phase: PodPhase) {
    let first = case.pods.values().next().unwrap().clone();
    let pod = PodView {
        uid: format!("pod-{group}-{index}-{round}"),
        group: group.to_owned(),
        index,
        round,
        node: Some(format!("node-{index}")),
        phase,
        ..first
    };
    case.pods.insert(format!("llm-{group}-{index}"), pod);
}

/// Places the job and lets its gang run.
pub(super) fn run_job(mut case: JobCase) -> JobCase {
    case.place(1, &PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    case
}

pub(super) fn count_restarts(case: &JobCase) -> (i64, i64, i64) {
    let status = &case.status;
    let count = |count: Option<i64>| count.unwrap_or(0);
    let (restarts, disruptions) = (count(status.restarts), count(status.disruptions));
    (case.attempt(), restarts, disruptions)
}

/// Returns the awaited pods, as `worker 0-1 round 2`.
pub(super) fn describe_awaited(case: &JobCase) -> Vec<String> {
    let awaited = case
        .status
        .internal
        .awaited_pods
        .iter()
        .flat_map(|a| &a.pods);
    let word = |g: &AwaitedGroup| format!("{} {} round {}", g.name, g.indexes, g.round);
    awaited.map(word).collect()
}

#[test]
fn failed_rank_of_an_elastic_job_restarts_alone() {
    let mut case = run_job(elastic_case());
    case.pod(1).phase = exit(1);
    let next = case.expect_status(JobPhase::Running, Reason::Recovering);
    assert_eq!(count_restarts(&case), (1, 1, 0));
    assert_eq!(describe_awaited(&case), ["worker 1 round 1"]);
    let message = case.status.message.clone().unwrap();
    assert!(
        message.contains("\"llm-worker-1\", Error, exit code 1"),
        "{message}"
    );
    let DesiredGang::Run(attempt) = next.desired else {
        panic!("the job continues");
    };
    let not_before = &attempt.awaited.pods[0].not_before;
    assert_eq!(not_before.as_ref().map(|t| t.0), Some(at(10)));
    // The failure counts once, however often it is evaluated, and while the pod is missing.
    case.expect_status(JobPhase::Running, Reason::Recovering);
    case.pods.remove("llm-worker-1");
    case.expect_status(JobPhase::Running, Reason::Recovering);
    assert_eq!(count_restarts(&case), (1, 1, 0));
    add_pod(&mut case, "worker", 1, 1, PodPhase::Pending);
    case.expect_status(JobPhase::Running, Reason::Running);
    assert!(describe_awaited(&case).is_empty());
    // The next pause is longer, and then the limit is used up.
    for (failures, seconds) in [(2, 20), (3, 40)] {
        case.pod(1).phase = exit(1);
        case.expect_status(JobPhase::Running, Reason::Recovering);
        assert_eq!(count_restarts(&case), (1, failures, 0));
        let awaited = case.status.internal.awaited_pods.clone().unwrap();
        assert_eq!(
            awaited.pods[0].not_before.as_ref().map(|t| t.0),
            Some(at(seconds))
        );
        add_pod(&mut case, "worker", 1, awaited.round, PodPhase::Running);
        case.evaluate_and_store();
    }
    case.pod(1).phase = exit(1);
    case.expect_status(JobPhase::Failed, Reason::RestartLimitReached);
}

#[test]
fn simultaneous_failures_count_once_and_disruptions_count_no_restart() {
    let mut case = run_job(case_with_group(json!({"scope": "Pod"}), json!({})));
    case.pod(0).phase = exit(1);
    case.pod(1).phase = exit(1);
    case.expect_status(JobPhase::Running, Reason::Recovering);
    assert_eq!(count_restarts(&case), (1, 1, 0));
    assert_eq!(describe_awaited(&case), ["worker 0-1 round 1"]);

    let mut case = run_job(self::case_with_group(json!({"scope": "Pod"}), json!({})));
    case.pods.remove("llm-worker-0");
    case.pod(1).is_disrupted = true;
    case.expect_status(JobPhase::Running, Reason::Recovering);
    assert_eq!(count_restarts(&case), (1, 0, 1));
    assert_eq!(describe_awaited(&case), ["worker 0-1 round 1"]);
}

#[test]
fn restart_scope_selects_the_pods_to_restart() {
    for (restart, pods) in [
        (json!({"scope": "Group"}), "worker 0-1 round 1"),
        (json!({"scope": "Pod"}), "worker 1 round 1"),
        (
            json!({"rules": [{"onExitCodes": [1], "action": "RestartGroup"}]}),
            "worker 0-1 round 1",
        ),
        (
            json!({"rules": [{"onExitCodes": [1], "action": "RestartPod"}]}),
            "worker 1 round 1",
        ),
    ] {
        let mut case = run_job(case_with_group(restart.clone(), json!({})));
        case.pod(1).phase = exit(1);
        case.expect_status(JobPhase::Running, Reason::Recovering);
        assert_eq!(describe_awaited(&case), [pods], "{restart}");
        assert_eq!(count_restarts(&case), (1, 1, 0), "{restart}");
    }
    for restart in [
        json!({}),
        json!({"scope": "Gang"}),
        json!({"rules": [{"onExitCodes": [2], "action": "RestartPod"}]}),
    ] {
        let mut case = run_job(case_with_group(restart.clone(), json!({})));
        case.pod(1).phase = exit(1);
        case.expect_status(JobPhase::Restarting, Reason::PodFailed);
        assert_eq!(count_restarts(&case), (2, 1, 0), "{restart}");
        assert!(describe_awaited(&case).is_empty());
    }
    let rule = json!({"rules": [{"action": "RestartWithoutCounting"}], "scope": "Pod"});
    let mut case = run_job(case_with_group(rule, json!({})));
    case.pod(1).phase = exit(1);
    case.expect_status(JobPhase::Running, Reason::Recovering);
    assert_eq!(count_restarts(&case), (1, 0, 0));
}

/// A pod alone cannot be restarted if its node is gone or takes no new pods, or if it is rank 0 of
/// an elastic job.
#[test]
fn gang_restarts_if_its_failed_pod_cannot_be_replaced_alone() {
    type CaseFault = fn(&mut JobCase);
    let faults: [(CaseFault, Reason); 5] = [
        (
            |case| {
                case.lost_nodes.insert("node-1".to_owned());
            },
            Reason::NodeLost,
        ),
        (
            |case| {
                case.unhealthy_nodes.insert("node-1".to_owned());
            },
            Reason::NodeUnhealthy,
        ),
        (
            |case| {
                case.closed_nodes.insert("node-1".to_owned());
                case.pod(1).phase = exit(1);
            },
            Reason::PodFailed,
        ),
        (|case| case.pod(0).phase = exit(1), Reason::PodFailed),
        (
            |case| {
                case.pods.remove("llm-worker-0");
            },
            Reason::PodDisrupted,
        ),
    ];
    for (fault, reason) in faults {
        let mut case = run_job(elastic_case());
        fault(&mut case);
        case.expect_status(JobPhase::Restarting, reason);
        assert_eq!(case.attempt(), 2, "{reason}");
    }
}

/// Another gang may use the resources of a pod that has ended.
#[test]
fn group_with_finished_pods_restarts_with_the_gang() {
    let mut case = run_job(case_with_group(json!({"scope": "Group"}), json!({})));
    case.pod(0).phase = PodPhase::Succeeded;
    case.evaluate_and_store();
    case.pod(1).phase = exit(1);
    case.expect_status(JobPhase::Restarting, Reason::PodFailed);
    assert_eq!(count_restarts(&case), (2, 1, 0));
}

/// When one rank fails, the others may fail a few seconds later.
#[test]
fn failure_within_30_seconds_belongs_to_the_same_wave() {
    let mut case = run_job(case_with_group(
        json!({"scope": "Pod", "limit": 1}),
        json!({}),
    ));
    case.pod(1).phase = exit(1);
    case.expect_status(JobPhase::Running, Reason::Recovering);
    case.second = 20;
    case.pod(0).phase = exit(1);
    case.expect_status(JobPhase::Running, Reason::Recovering);
    assert_eq!(count_restarts(&case), (1, 1, 0));
    assert_eq!(describe_awaited(&case).len(), 2);
    // A replacement that fails again begins another wave.
    add_pod(&mut case, "worker", 0, 2, PodPhase::Running);
    add_pod(&mut case, "worker", 1, 1, PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.pod(1).phase = exit(1);
    case.expect_status(JobPhase::Failed, Reason::RestartLimitReached);
}

/// For example, the image of the new pod cannot be pulled.
#[test]
fn gang_restarts_when_a_replacement_does_not_start_in_time() {
    let mut case = run_job(case_with_group(
        json!({"scope": "Pod", "maxBackoffSeconds": 10}),
        json!({}),
    ));
    case.pod(1).phase = exit(1);
    case.expect_status(JobPhase::Running, Reason::Recovering);
    add_pod(&mut case, "worker", 1, 1, PodPhase::Pending);
    let next = case.expect_status(JobPhase::Running, Reason::Running);
    assert_eq!(next.next_check, Some(at(1810)));
    case.second = 1810;
    case.expect_status(JobPhase::Restarting, Reason::StartupTimeout);
    assert_eq!(case.attempt(), 2);
}

#[test]
fn gang_restarts_when_the_node_of_a_replacement_is_closed() {
    for (lost, reason) in [(true, Reason::NodeLost), (false, Reason::PodDisrupted)] {
        let mut case = run_job(case_with_group(json!({"scope": "Pod"}), json!({})));
        case.pod(1).phase = exit(1);
        case.expect_status(JobPhase::Running, Reason::Recovering);
        case.pods.remove("llm-worker-1");
        let nodes = if lost {
            &mut case.lost_nodes
        } else {
            &mut case.closed_nodes
        };
        nodes.insert("node-1".to_owned());
        case.expect_status(JobPhase::Restarting, reason);
        assert_eq!(count_restarts(&case), (2, 1, 1));
    }
}

/// The node keeps stopping its pods.
#[test]
fn gang_restarts_when_a_node_stops_a_pod_twice() {
    let mut case = run_job(case_with_group(json!({"scope": "Pod"}), json!({})));
    case.pod(1).is_disrupted = true;
    case.expect_status(JobPhase::Running, Reason::Recovering);
    add_pod(&mut case, "worker", 1, 1, PodPhase::Running);
    case.expect_status(JobPhase::Running, Reason::Running);
    case.pod(1).is_disrupted = true;
    case.expect_status(JobPhase::Restarting, Reason::PodDisrupted);
    assert_eq!(count_restarts(&case), (2, 0, 2));
}

#[test]
fn group_is_created_once_its_dependencies_are_ready() {
    let mut case = JobCase::new(json!({}));
    let mut spec = serde_json::to_value(&case.spec).unwrap();
    let after = json!({"name": "after", "image": "i", "dependsOn": [{"group": "worker"}],
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
    spec["taskGroups"].as_array_mut().unwrap().push(after);
    case.spec = serde_json::from_value(spec).unwrap();
    let held_groups = |next: &EvaluationResult| match &next.desired {
        DesiredGang::Run(attempt) => attempt.awaited.held_groups.clone(),
        desired => panic!("{desired:?}"),
    };
    assert_eq!(held_groups(&case.evaluate_and_store()), ["after"]);
    case.place(1, &PodPhase::Running);
    let plan = case.journal.plan.as_mut().unwrap();
    plan.assignments.push(Assignment {
        group: "after".to_owned(),
        node: "node-2".to_owned(),
        count: 1,
        pods: Vec::new(),
    });
    case.pod(1).ready = false;
    let next = case.expect_status(JobPhase::Starting, Reason::Starting);
    assert_eq!(
        held_groups(&next),
        ["after"],
        "the missing pod is no failure"
    );
    case.pod(1).ready = true;
    let next = case.expect_status(JobPhase::Starting, Reason::Starting);
    assert_eq!(held_groups(&next), [""; 0]);
    assert_eq!(describe_awaited(&case), ["after 0 round 0"]);
    add_pod(&mut case, "after", 0, 0, PodPhase::Running);
    // The pod stays even if a pod of its dependency is no longer ready.
    case.pod(1).ready = false;
    case.expect_status(JobPhase::Running, Reason::Running);
    assert!(describe_awaited(&case).is_empty());
    case.pods.remove("llm-after-0");
    case.expect_status(JobPhase::Restarting, Reason::PodDisrupted);
    assert_eq!(
        held_groups(&case.evaluate_and_store()),
        ["after"],
        "the group waits again in the next attempt"
    );
}

#[test]
fn status_names_the_failure_that_exceeds_the_restart_limit() {
    let mut case = run_job(case_with_group(
        json!({"scope": "Pod", "limit": 0}),
        json!({}),
    ));
    case.pod(1).phase = exit(7);
    case.expect_status(JobPhase::Failed, Reason::RestartLimitReached);
    let last = case.status.last_failure.clone().unwrap();
    assert_eq!(
        (last.pod.as_str(), last.exit_code),
        ("llm-worker-1", Some(7))
    );
}
