//! Surplus pods: those that are not part of the gang.

use super::recovery::{
    add_pod, case_with_group, count_restarts, describe_awaited, elastic_case, run_job,
};
use super::*;

#[test]
fn elastic_gang_runs_with_its_minimum_of_replicas() {
    let mut case = run_job(elastic_case());
    assert_eq!(case.status.ready.as_deref(), Some("2/4"));
    add_pod(&mut case, "worker", 2, 0, PodPhase::Pending);
    case.expect_status(JobPhase::Running, Reason::Running);
    add_pod(&mut case, "worker", 2, 0, PodPhase::Running);
    case.evaluate_and_store();
    assert_eq!(case.status.ready.as_deref(), Some("3/4"));
    // Surplus pods that exist count for the job's success.
    for index in 0..2 {
        case.pod(index).phase = PodPhase::Succeeded;
    }
    case.expect_status(JobPhase::Running, Reason::Running);
    case.pod(2).phase = PodPhase::Succeeded;
    case.expect_status(JobPhase::Complete, Reason::Complete);
}

#[test]
fn restart_rule_can_fail_the_job_by_a_surplus_pod() {
    let rules = json!({"rules": [{"onExitCodes": [42], "action": "Fail"}]});
    let mut case = run_job(self::case_with_group(
        rules,
        json!({"replicas": 4, "minReplicas": 2}),
    ));
    add_pod(&mut case, "worker", 3, 0, PodPhase::Running);
    case.evaluate_and_store();
    case.pods.get_mut("llm-worker-3").unwrap().phase = exit(42);
    case.expect_status(JobPhase::Failed, Reason::FailedByRule);
}

/// The job can run without its surplus pods, so their deletion is no failure.
#[test]
fn deletion_of_a_surplus_pod_is_no_failure() {
    let mut case = run_job(elastic_case());
    add_pod(&mut case, "worker", 2, 0, PodPhase::Running);
    case.evaluate_and_store();
    let pod = case.pods.get_mut("llm-worker-2").unwrap();
    (pod.deleting, pod.deletion_requested) = (true, Some(at(0)));
    case.expect_status(JobPhase::Running, Reason::Running);
    assert_eq!(case.status.last_failure, None);
    assert_eq!(case.status.internal.awaited_pods, None);
}

#[test]
fn failure_of_a_surplus_pod_never_restarts_the_gang() {
    type PodFault = fn(&mut PodView);
    let faults: [(PodFault, (i64, i64, i64)); 4] = [
        (|pod| pod.phase = exit(1), (1, 1, 0)),
        (|pod| pod.is_disrupted = true, (1, 0, 0)),
        (|pod| pod.node = Some("gone".to_owned()), (1, 0, 0)),
        (
            |pod| {
                pod.phase = PodPhase::Refused {
                    reason: "OutOfcpu".to_owned(),
                };
            },
            (1, 0, 0),
        ),
    ];
    for (at, (fault, counts)) in faults.into_iter().enumerate() {
        let mut case = elastic_case();
        case.lost_nodes.insert("gone".to_owned());
        let mut case = run_job(case);
        add_pod(&mut case, "worker", 2, 0, PodPhase::Running);
        case.evaluate_and_store();
        fault(case.pods.get_mut("llm-worker-2").unwrap());
        case.expect_status(JobPhase::Running, Reason::Recovering);
        assert_eq!(count_restarts(&case), counts, "{at}");
        assert_eq!(describe_awaited(&case), ["worker 2 round 1"], "{at}");
        // The pod need not return.
        case.pods.remove("llm-worker-2");
        case.expect_status(JobPhase::Running, Reason::Running);
        assert_eq!(count_restarts(&case), counts, "{at}");
    }
}

#[test]
fn best_effort_pod_does_not_affect_success_or_restart_counts() {
    let mut case = JobCase::new(json!({}));
    let mut spec = serde_json::to_value(&case.spec).unwrap();
    let board = json!({"name": "board", "membership": "BestEffort", "image": "i",
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
    spec["taskGroups"].as_array_mut().unwrap().push(board);
    case.spec = serde_json::from_value(spec).unwrap();
    let mut case = run_job(case);
    add_pod(&mut case, "board", 0, 0, PodPhase::Running);
    for round in 1..9 {
        case.second += 100;
        case.pods.get_mut("llm-board-0").unwrap().phase = exit(1);
        case.expect_status(JobPhase::Running, Reason::Recovering);
        assert_eq!(count_restarts(&case), (1, 0, 0));
        add_pod(&mut case, "board", 0, round, PodPhase::Running);
        case.expect_status(JobPhase::Running, Reason::Running);
    }
    for index in 0..2 {
        case.pod(index).phase = PodPhase::Succeeded;
    }
    case.expect_status(JobPhase::Complete, Reason::Complete);
}
